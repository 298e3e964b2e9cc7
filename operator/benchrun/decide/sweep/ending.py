"""What ends a sweep before all of its runs were measured."""

from __future__ import annotations

from benchrun.api.sweep.status import SweepReason
from benchrun.decide.collected import Ending
from benchrun.decide.sweep.situation import SweepSituation


def ending(situation: SweepSituation) -> Ending | None:
    """Why no run is started any more and those that go on are cancelled; None while there is no reason to."""
    collected, limit = situation.world.collected, situation.spec.max_failed
    if situation.spec.cancel:
        return Ending(SweepReason.CANCELLED, "cancelled by spec.cancel")
    if collected.conflict is not None:
        return Ending(SweepReason.CONFLICT, f"{collected.conflict}; rename one of the two")
    if collected.not_created is not None and not collected.not_created.curable:
        return Ending(SweepReason.RUN_INVALID, collected.not_created.message)
    failed = [run for run in situation.ended if run.state == "Failed"]
    if limit is not None and len(failed) > limit:
        last = failed[-1]
        message = f"{len(failed)} runs failed and spec.maxFailed is {limit}; {last.name}: {last.reason}"
        return Ending(SweepReason.TOO_MANY_FAILED, message)
    return None
