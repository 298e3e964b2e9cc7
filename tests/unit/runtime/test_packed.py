"""What is packed comes out as it went in, and takes little room."""

from __future__ import annotations

import tracemalloc

import pytest
from benchrun.measure.samples import Sample
from benchrun.runtime.packed import BLOCK_SAMPLES, PackedRecords, Readings
from benchrun_client.contract import Envelope
from unit.measure.records import record


def samples(count: int) -> list[Sample]:
    return [
        Sample(
            at=1000.0 + n,
            role="server",
            pod="br-chat-server-a1-x",
            running=float(n % 16),
            waiting=None,
            kv_cache=n % 100 / 100,
            generation_tokens=812.0 * n,
            prompt_tokens=6500.0 * n,
            start_time=1000.25,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, BLOCK_SAMPLES, 2 * BLOCK_SAMPLES, 5 * BLOCK_SAMPLES + 7])
def test_readings_come_out_as_they_went_in(count: int) -> None:
    given = samples(count)
    readings = Readings()
    for sample in given:
        readings.extend([sample])
    held = readings.followed_by(())
    assert list(held) == given
    assert list(reversed(held)) == given[::-1]
    assert len(held) == len(readings) == count


def test_newer_readings_follow_those_held() -> None:
    given = samples(2 * BLOCK_SAMPLES + 3)
    held = Readings.of(given[:-2]).followed_by(given[-2:])
    assert list(held) == given
    assert (held[0], held[-1], held[-2:]) == (given[0], given[-1], tuple(given[-2:]))


def test_what_was_handed_out_does_not_change_when_more_comes() -> None:
    given = samples(3 * BLOCK_SAMPLES)
    readings = Readings.of(given[:10])
    held = readings.followed_by(())
    readings.extend(given[10:])
    assert list(held) == given[:10]


def test_an_hour_of_readings_takes_less_than_four_hundred_kilobytes() -> None:
    readings = Readings()
    tracemalloc.start()
    try:
        for sample in samples(3600):
            readings.extend([sample])
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 400_000


def test_records_are_opened_when_asked_for_and_counted_without() -> None:
    given = [record(sequence=sequence) for sequence in range(3)]
    packed = PackedRecords(tuple(Envelope.seal(r).data() for r in given))
    assert list(packed) == given
    assert (packed[1], list(packed[1:])) == (given[1], given[1:])
    assert len(PackedRecords((b"not a record",))) == 1
