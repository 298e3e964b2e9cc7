"""What memory holds of a run: records until they are stored, of the run that they came from."""

from typing import Any

import pytest
from benchrun import names
from benchrun.observe import Child, Children, run_key
from benchrun.runtime.memory import Memories, RunMemory
from benchrun_client.contract import Sealed
from unit.measure.records import sealed_bytes


def child(role: str, **changes: Any) -> Child:
    values: dict[str, Any] = {
        "kind": "ConfigMap",
        "name": role,
        "uid": role,
        "role": role,
        "owner_uid": "uid-1",
        "deleting": False,
    }
    return Child(**(values | changes))


def stage(sequence: int, digest: str, **changes: Any) -> Child:
    envelope = sealed_bytes(sequence, digest=digest).envelope
    return child(names.ROLE_STAGE, sequence=sequence, envelope=envelope, **changes)


def arrival(sequence: int, data: bytes = b"packed") -> Sealed:
    return sealed_bytes(sequence, data, digest="d")


@pytest.fixture
def memory() -> RunMemory:
    return RunMemory(uid="uid-1")


@pytest.mark.parametrize(
    ("left", "stored"),
    [
        pytest.param([1], stage(0, "d"), id="stored"),
        pytest.param([0, 1], stage(0, "other"), id="another-digest"),
        pytest.param([0, 1], stage(0, "d", owner_uid="other"), id="another-run"),
        pytest.param([0, 1], child(names.ROLE_PLAN), id="no-stage"),
    ],
)
def test_arrival_is_kept_until_exactly_it_is_stored(
    memory: RunMemory, left: list[int], stored: Child
) -> None:
    memory.collected.take(arrival(0))
    memory.collected.take(arrival(1))
    memory.let_go_of_stored(Children(objects=(stored,)))
    assert list(memory.collected.arrivals) == left
    assert memory.collected.sequences == {0, 1}


def test_stored_records_take_no_memory(memory: RunMemory) -> None:
    """A hundred records one after the other take what one takes."""
    for sequence in range(100):
        memory.collected.take(arrival(sequence))
        memory.let_go_of_stored(
            Children(objects=tuple(stage(s, "d") for s in range(sequence)))
        )
        assert list(memory.collected.arrivals) == [sequence]
    assert memory.collected.take(arrival(50)) is False


def test_memories_are_by_run_and_uid() -> None:
    memories = Memories(RunMemory)
    key = run_key("lab", "chat")
    first = memories.of(key, "uid-1")
    assert memories.of(key, "uid-1") is first
    assert memories.of(run_key("prod", "chat"), "uid-9") is not first
    second = memories.of(key, "uid-2")
    assert second is not first
    assert memories.of(key, "uid-2") is second
    assert len(memories) == 2
    memories.drop(key)
    memories.drop(key)
    assert len(memories) == 1
