"""What the API server said no to becomes a wait for the queue, and a word in the metrics."""

from __future__ import annotations

import pytest
from benchrun.effects.errors import (
    ClusterError,
    Conflict,
    Exists,
    Forbidden,
    Invalid,
    NotFound,
    Occupied,
    Throttled,
    Unavailable,
)
from benchrun.runtime.passes import LOOK_AGAIN_SECONDS, guarded
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry


class Pass:
    """One that fails so, or returns seconds."""

    def __init__(self, outcome: Exception | float | None) -> None:
        self.telemetry = Telemetry()
        self.read_again = 0
        self._outcome = outcome

    async def _make(self) -> float | None:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def _read(self) -> None:
        self.read_again += 1

    async def made(self) -> float | None:
        return await guarded(self._make, telemetry=self.telemetry, after_conflict=self._read)

    def counted(self) -> dict[str, float]:
        """Passes by result."""
        results = ("success", "throttled", "conflict", "error", "notfound", "forbidden", "invalid", "unavailable")
        found = {
            result: self.telemetry.registry.get_sample_value("benchrun_reconcile_total", {"result": result})
            for result in results
        }
        return {result: count for result, count in found.items() if count}


@pytest.mark.parametrize("seconds", [None, 0.0, 5.0])
async def test_a_pass_that_went_well_says_when_to_look_again(seconds: float | None) -> None:
    well = Pass(seconds)
    assert await well.made() == seconds
    assert (well.counted(), well.read_again) == ({"success": 1}, 0)


@pytest.mark.parametrize(
    ("error", "result", "seconds", "reads"),
    [
        pytest.param(Throttled("slow down", retry_after_seconds=7.5), "throttled", 7.5, 0, id="throttled"),
        pytest.param(Conflict("moved on", code=409), "conflict", LOOK_AGAIN_SECONDS, 1, id="conflict"),
        pytest.param(Exists("is there", code=409), "conflict", LOOK_AGAIN_SECONDS, 1, id="exists"),
        pytest.param(Occupied("not ours", found={}), "conflict", LOOK_AGAIN_SECONDS, 1, id="occupied"),
        pytest.param(NotFound("gone", code=404), "notfound", LOOK_AGAIN_SECONDS, 0, id="not-found"),
        pytest.param(Forbidden("no", code=403), "forbidden", LOOK_AGAIN_SECONDS, 0, id="forbidden"),
        pytest.param(Invalid("never", code=422), "invalid", LOOK_AGAIN_SECONDS, 0, id="invalid"),
        pytest.param(Unavailable("no answer"), "unavailable", LOOK_AGAIN_SECONDS, 0, id="unavailable"),
    ],
)
async def test_a_refusal_is_tried_again_later(error: ClusterError, result: str, seconds: float, reads: int) -> None:
    refused = Pass(error)
    with pytest.raises(Later) as later:
        await refused.made()
    assert later.value.seconds == seconds
    assert str(error) in str(later.value)
    assert later.value.__cause__ is error
    assert (refused.counted(), refused.read_again) == ({result: 1}, reads)


async def test_a_fault_of_ours_is_no_refusal() -> None:
    broken = Pass(ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        await broken.made()
    assert (broken.counted(), broken.read_again) == ({"error": 1}, 0)


async def test_what_can_not_be_read_again_after_a_conflict_is_told() -> None:
    telemetry = Telemetry()

    async def conflict() -> None:
        raise Conflict("moved on", code=409)

    async def down() -> None:
        raise Unavailable("down")

    with pytest.raises(Unavailable):
        await guarded(conflict, telemetry=telemetry, after_conflict=down)
    assert telemetry.registry.get_sample_value("benchrun_reconcile_total", {"result": "conflict"}) == 1
