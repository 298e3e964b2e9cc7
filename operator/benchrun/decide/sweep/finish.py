"""The end of a sweep: what ends it early, and its last table and what came of it in one write."""

from __future__ import annotations

from benchrun.api.conditions import timestamp
from benchrun.api.sweep.status import BenchmarkSweepStatus, SweepPhase, SweepReason
from benchrun.api.text import sentence
from benchrun.decide import condition_table
from benchrun.decide.collected import CANCELLED, Ending
from benchrun.decide.decision import Event
from benchrun.decide.sweep.decision import SweepDecision, TableMade
from benchrun.decide.sweep.situation import SweepSituation
from benchrun.decide.sweep.tabling import tabled


def ending(situation: SweepSituation) -> Ending | None:
    """Why no run is started any more and those that go on are cancelled; None while there is no reason to."""
    collected, limit = situation.world.collected, situation.spec.max_failed
    if situation.spec.cancel:
        return CANCELLED
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


def finish(situation: SweepSituation, end: Ending | None, made: TableMade) -> SweepDecision:
    """No run goes on any more. Everything comes in one write, so that nobody ever sees an end without its table."""
    generation, now = situation.world.sweep.generation, situation.world.now
    status = tabled(situation, made).model_copy(update={"completion_time": timestamp(now)})
    early = end or _without_a_table(situation)
    phase: SweepPhase = "Completed" if early is None else early.phase
    if early is None:
        reason, message = _outcome(situation, status, made)
        rows = condition_table.sweep_measured(reason, message)
    else:
        reason, message = early.reason, sentence(early.message)
        rows = condition_table.sweep_ended_early(reason, message)
    status = condition_table.standing(status, rows, phase=phase, message=message, generation=generation, now=now)
    warning = phase == "Failed" or reason in (SweepReason.RUNS_FAILED, SweepReason.INVALID_CELLS)
    return SweepDecision(status=status, forget=True, events=(Event(phase, message, warning=warning),))


def _without_a_table(situation: SweepSituation) -> Ending | None:
    """Ends that nobody wished for: the budget is spent before all was started, or nothing was measured."""
    if situation.waiting:
        message = (
            f"the budget of {situation.spec.gpu_seconds_budget} GPU seconds has no room for another run: "
            f"{situation.status.gpu_seconds:g} were held by {len(situation.ended)} runs, {len(situation.waiting)} were not started"
        )
        return Ending(SweepReason.BUDGET_SPENT, message)
    if not any(run.state == "Completed" for run in situation.ended):
        first = situation.ended[0]
        return Ending(SweepReason.ALL_FAILED, f"no run was measured to its end; {first.name}: {first.reason}")
    return None


def _outcome(situation: SweepSituation, status: BenchmarkSweepStatus, made: TableMade) -> tuple[str, str]:
    """Reason and message of a sweep whose runs have all ended."""
    total, missing = len(situation.variants), [v for v in status.variants if not v.completed]
    measured = f"measured {total - len(missing)} of {total} variants"
    early = sum(run.state != "Completed" for run in situation.ended)
    if early:
        first = f"; {missing[0].name}: {missing[0].reason or 'not measured'}" if missing else ""
        runs = "run" if early == 1 else "runs"
        return SweepReason.RUNS_FAILED, sentence(f"{measured}; {early} {runs} ended early{first}")
    if made.table is None:
        return SweepReason.NOT_JUDGED, sentence(f"{measured}, but its table is not made: {made.problem}")
    if status.verdict == "Invalid":
        return SweepReason.INVALID_CELLS, f"{measured}, but some rows are invalid: their numbers mean nothing"
    if status.verdict == "Suspect":
        return SweepReason.SUSPECT, f"{measured}; some rows are suspect"
    return SweepReason.ALL_VALID, f"{measured}; every row is valid"
