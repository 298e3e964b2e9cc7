"""What is collected of a run, and that it does not grow without bound."""

from itertools import pairwise
from typing import Any

import pytest
from benchrun.decide import (
    MAX_BACKLOG_BYTES,
    MAX_SERVERS,
    MAX_UNSTORED_SAMPLES,
    Collected,
    Samples,
)
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import MAX_PACKED_BYTES, Sealed
from unit.measure.records import sealed_bytes


def arrival(sequence: int, data: bytes = b"packed", **changes: Any) -> Sealed:
    return sealed_bytes(sequence, data, **changes)


def sample(at: float, pod: str = "p") -> Sample:
    return Sample(at=at, role="server", pod=pod, running=1.0)


# ---- records
# ---------------------------------------------------------------------------------------------------------


def test_the_first_record_of_a_stage_stands() -> None:
    collected = Collected()
    assert collected.take(arrival(0, b"first")) is True
    assert collected.take(arrival(0, b"second")) is False
    assert [a.body for a in collected.arrivals.values()] == [b"first"]


def test_the_end_of_a_search_is_remembered_when_its_record_is_let_go() -> None:
    collected = Collected()
    collected.take(arrival(0))
    collected.take(arrival(1, ends_search="chat"))
    collected.arrivals.clear()
    assert collected.search_ends == {1: "chat"}


@pytest.mark.parametrize(("first", "wanted"), [(0, 2), (2, 2), (3, 4), (7, 7)])
def test_the_next_record_is_the_first_that_is_missing(
    first: int, wanted: int
) -> None:
    collected = Collected()
    for sequence in (0, 1, 3):
        collected.take(arrival(sequence))
    assert collected.next_sequence(first) == wanted


def test_records_that_wait_to_be_stored_are_bounded_in_bytes() -> None:
    """One answer of the client may come on top."""
    collected = Collected()
    largest = bytes(MAX_PACKED_BYTES)
    while not collected.backlog_is_full:
        collected.take(arrival(len(collected.sequences), largest))
    assert len(collected.arrivals) == MAX_BACKLOG_BYTES // MAX_PACKED_BYTES + 1
    del collected.arrivals[0]
    assert not collected.backlog_is_full


# ---- samples
# ---------------------------------------------------------------------------------------------------------


def test_samples_that_cannot_be_stored_stay_bounded_and_the_older_ones_are_coarser() -> (
    None
):
    """Twelve hours of one server at one a second, while no pass succeeds."""
    samples = Samples()
    for at in range(43_200):
        samples.add(sample(float(at)))
        assert len(samples.unstored) <= MAX_UNSTORED_SAMPLES
    instants = [s.at for s in samples.unstored]
    assert instants == sorted(instants)
    assert (
        max(
            b - a
            for a, b in pairwise(instants)
            if a >= 43_200 - MAX_UNSTORED_SAMPLES / 2
        )
        <= 2
    )
    assert instants[0] < 43_200 / 2
    assert instants[-1] == 43_199


@pytest.mark.parametrize("servers", [1, 3, 32])
def test_samples_of_many_servers_stay_bounded(servers: int) -> None:
    samples = Samples()
    for at in range(3 * MAX_UNSTORED_SAMPLES):
        samples.add(sample(float(at // servers), pod=f"p{at % servers}"))
    assert MAX_UNSTORED_SAMPLES / 3 < len(samples.unstored) <= MAX_UNSTORED_SAMPLES
    assert {s.pod for s in samples.unstored} == {f"p{n}" for n in range(servers)}


def test_each_servers_last_two_are_kept_for_live_figures() -> None:
    samples = Samples()
    for at in range(1000):
        samples.add(sample(float(at), pod="often"))
        if at % 100 == 0:
            samples.add(sample(at + 0.5, pod="seldom"))
    assert [(s.pod, s.at) for s in samples.recent] == [
        ("seldom", 800.5),
        ("seldom", 900.5),
        ("often", 998.0),
        ("often", 999.0),
    ]


def test_stored_samples_are_let_go_and_the_latest_stay() -> None:
    samples = Samples()
    for at in (1.0, 2.0, 3.0):
        samples.add(sample(at))
    samples.stored(through=3.0)
    assert samples.unstored == []
    assert [s.at for s in samples.recent] == [2.0, 3.0]


def test_replicas_that_come_and_go_for_days_leave_nothing_behind() -> None:
    samples = Samples()
    for number in range(3 * MAX_SERVERS):
        for at in (1.0, 2.0):
            samples.add(sample(number + at, pod=f"10.0.{number}:8000"))
    last = f"10.0.{3 * MAX_SERVERS - 1}:8000"
    assert len(samples.recent) == 2 * MAX_SERVERS
    assert [each.at for each in samples.recent if each.pod == last] == [
        3 * MAX_SERVERS + 0.0,
        3 * MAX_SERVERS + 1.0,
    ]


@pytest.mark.parametrize(
    ("is_tight", "most"), [(False, MAX_UNSTORED_SAMPLES), (True, 2 * MAX_SERVERS)]
)
def test_samples_of_servers_that_go_after_one_stay_bounded(
    is_tight: bool, most: int
) -> None:
    """No two of them can be merged."""
    samples = Samples()
    for at in range(3 * most):
        samples.add(sample(float(at), pod=f"p{at}"), is_tight=is_tight)
        assert len(samples.unstored) <= most
    assert samples.unstored[-1].at == 3 * most - 1
    assert len(samples.unstored) >= most / 2
