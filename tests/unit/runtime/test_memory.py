"""What memory holds of a run, and that it does not grow without bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from benchrun.api import names
from benchrun.decide.decision import Arrival
from benchrun.measure.samples import Sample
from benchrun.observe.views import Child, Children
from benchrun.runtime.indexes import RunKey
from benchrun.runtime.memory import Memories, RunMemory
from benchrun_client.contract import Envelope
from unit.measure.records import record

NOTHING = Children()


def child(role: str, **changes: Any) -> Child:
    values: dict[str, Any] = {
        "kind": "ConfigMap",
        "name": role,
        "uid": role,
        "role": role,
        "owner_uid": "uid-1",
        "deleting": False,
        "applied_hash": None,
    }
    return Child(**(values | changes))


def stage(sequence: int, digest: str, **changes: Any) -> Child:
    return child(names.ROLE_STAGE, sequence=sequence, record_digest=digest, **changes)


def arrival(sequence: int, digest: str = "d") -> Arrival:
    return Arrival(sequence=sequence, digest=digest, data=Envelope.seal(record(sequence=sequence)).data())


@pytest.fixture
def memory() -> RunMemory:
    """An empty memory."""
    return RunMemory(uid="uid-1")


def test_records_are_in_order_whatever_order_they_came_in(memory: RunMemory) -> None:
    for sequence in (2, 0, 1):
        memory.take(arrival(sequence))
    collected = memory.collected(NOTHING)
    assert [r.sequence for r in collected.records] == [0, 1, 2]
    assert [a.sequence for a in collected.arrivals] == [0, 1, 2]


def test_the_end_of_a_search_is_remembered_when_its_record_is_let_go(memory: RunMemory) -> None:
    memory.take(arrival(0))
    memory.take(replace(arrival(1), ends_search="chat"))
    collected = memory.collected(Children(objects=(stage(1, "d"),)))
    assert [a.sequence for a in collected.arrivals] == [0]
    assert collected.search_ends == {1: "chat"}


def test_first_record_of_a_stage_stands(memory: RunMemory) -> None:
    assert memory.take(arrival(0, "first")) is True
    assert memory.take(arrival(0, "second")) is False
    assert [a.digest for a in memory.collected(NOTHING).arrivals] == ["first"]


@pytest.mark.parametrize(
    ("left", "stored"),
    [
        pytest.param([1], stage(0, "d"), id="stored"),
        pytest.param([0, 1], stage(0, "other"), id="another-digest"),
        pytest.param([0, 1], stage(0, "d", owner_uid="other"), id="another-run"),
        pytest.param([0, 1], child(names.ROLE_PLAN), id="no-stage"),
    ],
)
def test_arrival_is_kept_until_exactly_it_is_stored(memory: RunMemory, left: list[int], stored: Child) -> None:
    memory.take(arrival(0))
    memory.take(arrival(1))
    collected = memory.collected(Children(objects=(stored,)))
    assert [a.sequence for a in collected.arrivals] == left
    assert [r.sequence for r in collected.records] == left
    assert (sorted(collected.sequences), collected.read_back) == ([0, 1], False)


def test_what_is_stored_takes_no_memory(memory: RunMemory) -> None:
    """A hundred records one after the other take what one takes."""
    held = []
    for sequence in range(100):
        memory.take(arrival(sequence))
        memory.collected(Children(objects=tuple(stage(s, "d") for s in range(sequence))))
        held.append(sum(len(a.data) for a in memory.arrivals.values()))
    assert max(held) < 2 * held[0]
    assert memory.take(arrival(50)) is False


def test_what_was_read_back_and_what_is_on_its_way_are_all_records(memory: RunMemory) -> None:
    for sequence in (0, 1, 2):
        memory.take(arrival(sequence))
    children = Children(objects=(stage(0, "d"), stage(2, "d")))
    assert [r.sequence for r in memory.collected(children).records] == [1]
    collected = memory.collected(children, stored={s: arrival(s).data for s in (2, 0)})
    assert [r.sequence for r in collected.records] == [0, 1, 2]
    assert collected.read_back is True


def test_next_record_is_the_first_that_is_missing(memory: RunMemory) -> None:
    for sequence in (0, 1, 3):
        memory.take(arrival(sequence))
    assert [memory.next_sequence(n) for n in (0, 2, 3, 7)] == [2, 2, 4, 7]


def test_own_timeline_chunks_are_counted(memory: RunMemory) -> None:
    chunks = (child(names.ROLE_TIMELINE), child(names.ROLE_TIMELINE, owner_uid="x"), stage(0, "d"))
    assert memory.collected(Children(objects=chunks)).timeline_chunks == 1


def test_refusals_are_counted_and_the_last_reason_is_kept(memory: RunMemory) -> None:
    memory.refuse("one")
    memory.refuse("two")
    collected = memory.collected(NOTHING)
    assert (collected.refused, collected.refused_count) == ("two", 2)


def test_stored_samples_stay_bounded_and_evenly_spread(memory: RunMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun.runtime.memory.MAX_STORED_SAMPLES", 256)
    for at in range(1024):
        memory.unstored_samples.append(Sample(at=float(at), role="server", pod="p", running=1.0))
        if at % 32 == 31:
            memory.stored(32)
            assert len(memory.stored_samples) <= 256
    instants = [s.at for s in memory.collected(NOTHING).samples]
    assert instants == sorted(instants)
    assert max(b - a for a, b in pairwise(instants)) <= 8
    assert instants[0] < 8
    assert instants[-1] > 1024 - 8


def test_run_of_four_hours_keeps_every_reading(memory: RunMemory) -> None:
    readings = 4 * 3600
    memory.unstored_samples += [Sample(at=float(at), role="server", pod="p") for at in range(readings)]
    memory.stored(readings)
    assert len(memory.collected(NOTHING).samples) == readings


def test_collected_does_not_change_when_memory_does(memory: RunMemory) -> None:
    collected = memory.collected(NOTHING)
    memory.take(arrival(0))
    memory.unstored_samples.append(Sample(at=1.0, role="server", pod="p"))
    assert (len(collected.records), len(collected.samples), collected.unstored_samples) == (0, 0, ())


def test_memories_are_by_run_and_uid() -> None:
    memories = Memories()
    key = RunKey("lab", "chat")
    first = memories.of(key, "uid-1")
    assert memories.of(key, "uid-1") is first
    assert memories.of(RunKey("prod", "chat"), "uid-9") is not first
    second = memories.of(key, "uid-2")
    assert second is not first
    assert memories.of(key, "uid-2") is second
    assert len(memories) == 2
    memories.drop(key)
    memories.drop(key)
    assert len(memories) == 1
