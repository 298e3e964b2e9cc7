"""One pass over one sweep. Read it from top to bottom; each step may end the pass."""

from __future__ import annotations

from dataclasses import replace

from benchrun.api.base import KIND
from benchrun.api.conditions import is_true, timestamp
from benchrun.api.sweep.status import BenchmarkSweepStatus, SweepPhase, SweepReason
from benchrun.api.text import sentence
from benchrun.decide.acceptance import Unacceptable
from benchrun.decide.collected import Ending
from benchrun.decide.decision import Event, Ref
from benchrun.decide.sweep import condition_table
from benchrun.decide.sweep.acceptance import accept, baseline_of
from benchrun.decide.sweep.counting import sweep_estimate
from benchrun.decide.sweep.decision import SweepDecision, SweepWorld
from benchrun.decide.sweep.ending import ending
from benchrun.decide.sweep.finish import finish
from benchrun.decide.sweep.situation import SweepSituation
from benchrun.decide.sweep.starting import to_start
from benchrun.decide.sweep.tabling import (
    counted_anew,
    is_tabled,
    table_made,
    table_wanted,
    tabled,
    tabled_runs,
    to_read,
)
from benchrun.decide.unaccepted import unaccepted
from benchrun.plan.sweep.order import PlannedRun
from benchrun.plan.sweep.runs import run_manifest


def decide(world: SweepWorld) -> SweepDecision:
    """What to do about a sweep now. The same world gives the same decision; its own outcome, seen again, changes nothing."""
    status = BenchmarkSweepStatus.model_validate(world.sweep.status)
    if world.sweep.deleting:
        return SweepDecision(status=status, forget=True)
    if is_finished(status):
        # Tools wait for the generation to be seen, whatever was edited after the end.
        seen = status.model_copy(update={"observed_generation": world.sweep.generation})
        return SweepDecision(status=seen, cancel=_all_active(world), forget=True)
    try:
        spec, variants = accept(world.sweep)
    except Unacceptable as error:
        return _refused(world, status, str(error))
    situation = _noticed(SweepSituation(world=world, spec=spec, variants=variants, status=status))
    wanted = to_read(situation)
    if wanted and not is_tabled(situation):
        return SweepDecision(status=status, read=wanted)
    end = ending(situation)
    starting = () if end is not None else to_start(situation)
    if not starting and not situation.active and (end is not None or not _waits(situation)):
        if wanted:
            return SweepDecision(status=status, read=wanted)
        made = table_made(situation)
        if made is not None:
            return finish(situation, end, made)
        return replace(_go_on(situation, end, starting), table=table_wanted(situation))
    return _go_on(situation, end, starting)


def is_finished(status: BenchmarkSweepStatus) -> bool:
    """Whether the sweep has ended, whichever way. Decided by conditions, never by the phase."""
    return is_true(status.conditions, "Complete") or is_true(status.conditions, "Failed")


def _noticed(situation: SweepSituation) -> SweepSituation:
    """The situation with what is known as soon as the spec was found good."""
    status = situation.status
    update = {
        "observed_generation": situation.world.sweep.generation,
        "accepted_time": status.accepted_time or timestamp(situation.world.now),
        "estimate": status.estimate or sweep_estimate(situation),
        "baseline": baseline_of(situation.spec, situation.variants),
        "gpu_seconds": round(sum(situation.gpu_seconds), 1),
    }
    return replace(situation, status=status.model_copy(update=update))


def _waits(situation: SweepSituation) -> bool:
    """Whether there is something left to start, only not now."""
    return bool(situation.waiting) and situation.spec.suspend


def _go_on(situation: SweepSituation, end: Ending | None, starting: tuple[PlannedRun, ...]) -> SweepDecision:
    wanted = None if is_tabled(situation) else table_wanted(situation)
    made = table_made(situation) if wanted is not None else None
    # The table anew only where one more run has ended.
    counted = tabled(situation, made) if made else counted_anew(situation, tabled=tabled_runs(situation))
    phase, reason, message = _step(situation, end, starting)
    conditions = condition_table.going_on(
        counted.conditions,
        reason=reason,
        message=message,
        generation=situation.world.sweep.generation,
        now=situation.world.now,
    )
    status = counted.model_copy(update={"phase": phase, "message": message, "conditions": conditions})
    told = situation.status.phase == phase or phase == "Pending"
    return SweepDecision(
        status=status,
        table=wanted if made is None else None,
        cancel=_to_cancel(situation) if end is not None else (),
        create=tuple(run_manifest(situation.owner, planned) for planned in starting),
        events=() if told else (Event(phase, message),),
    )


def _step(
    situation: SweepSituation, end: Ending | None, starting: tuple[PlannedRun, ...]
) -> tuple[SweepPhase, str, str]:
    """Phase, reason and message of a sweep that goes on."""
    names = [run.name for run in situation.active]
    going = f"{names[0]} goes on" if len(names) == 1 else f"{len(names)} runs go on" if names else "nothing is held"
    refused = situation.world.collected.not_created
    if end is not None:
        return "Running", SweepReason.ENDING, sentence(f"{end.message}; {going} until cancelled")
    if refused is not None and starting:
        reason = SweepReason.QUOTA_EXCEEDED if refused.quota else SweepReason.RUN_REFUSED
        return "Running", reason, sentence(f"{refused.message}; {going}")
    done = f"{len(situation.ended)} of {len(situation.planned)} runs have ended"
    if situation.spec.suspend:
        return "Suspended", SweepReason.SUSPENDED, f"suspended by spec.suspend; {done}, {going}"
    if starting and not names and not situation.ended:
        return "Running", SweepReason.MEASURING, f"starting the first of {len(situation.planned)} runs"
    return "Running", SweepReason.MEASURING, f"{done}, {going}"


def _to_cancel(situation: SweepSituation) -> tuple[Ref, ...]:
    return tuple(situation.ref(run) for run in situation.active if not run.cancelling and not run.deleting)


def _all_active(world: SweepWorld) -> tuple[Ref, ...]:
    """Of a sweep that is over, or whose plan can't be read: what is its by uid."""
    namespace = world.sweep.namespace
    return tuple(
        Ref(KIND, namespace, run.name, run.uid)
        for run in world.runs.values()
        if not run.ended and not run.cancelling and not run.deleting
    )


def _refused(world: SweepWorld, status: BenchmarkSweepStatus, problem: str) -> SweepDecision:
    problem, generation = sentence(problem), world.sweep.generation
    conditions = condition_table.ended_early(
        status.conditions, reason=SweepReason.INVALID_SPEC, message=problem, generation=generation, now=world.now
    )
    ended = status.model_copy(update=unaccepted(problem, conditions, generation=generation, now=world.now))
    event = Event(SweepReason.INVALID_SPEC, problem, warning=True)
    return SweepDecision(status=ended, cancel=_all_active(world), forget=True, events=(event,))
