"""One pass over one sweep. Read it from top to bottom; each step may end the pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchrun.api import has_ended, sentence, timestamp
from benchrun.api.sweep.status import BenchmarkSweepStatus, SweepPhase, SweepReason, read_sweep_status
from benchrun.decide import condition_table
from benchrun.decide.collected import Ending
from benchrun.decide.decision import Event, Ref
from benchrun.decide.refused import Unacceptable, accept_sweep
from benchrun.decide.sweep.decision import SweepDecision, SweepSituation, SweepWorld
from benchrun.decide.sweep.finish import (
    counted_anew,
    ending,
    finish,
    is_tabled,
    sweep_estimate,
    table_made,
    table_wanted,
    tabled,
    tabled_runs,
    to_read,
)
from benchrun.names import KIND
from benchrun.observe.ended_runs import SweptRun
from benchrun.plan.variants import PlannedRun, run_manifest


def decide(world: SweepWorld) -> SweepDecision:
    """What to do about a sweep now. The same world gives the same decision; its own outcome, seen again, changes nothing."""
    status = read_sweep_status(world.sweep.status)
    if world.sweep.deleting:
        return SweepDecision(status=status, forget=True)
    if has_ended(status.conditions):
        # Tools wait for the generation to be seen, whatever was edited after the end.
        seen = status.model_copy(update={"observed_generation": world.sweep.generation})
        return SweepDecision(status=seen, cancel=_cancelled(world, world.runs.values()), forget=True)
    try:
        spec, variants = accept_sweep(world.sweep)
    except Unacceptable as error:
        return _refused(world, status, str(error))
    situation = _noticed(SweepSituation(world=world, spec=spec, variants=variants, status=status))
    wanted = to_read(situation)
    if wanted and not is_tabled(situation):
        return SweepDecision(status=status, read=wanted)
    end = ending(situation)
    starting = () if end is not None else situation.to_start
    if not starting and not situation.active and (end is not None or not _waits(situation)):
        if wanted:
            return SweepDecision(status=status, read=wanted)
        made = table_made(situation)
        if made is not None:
            return finish(situation, end, made)
        return replace(_go_on(situation, end, starting), table=table_wanted(situation))
    return _go_on(situation, end, starting)


def _noticed(situation: SweepSituation) -> SweepSituation:
    """The situation with what is known as soon as the spec was found good."""
    status = situation.status
    update = {
        "accepted_time": status.accepted_time or timestamp(situation.world.now),
        "estimate": status.estimate or sweep_estimate(situation),
        "baseline": situation.baseline,
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
    status = condition_table.standing(
        counted,
        condition_table.sweep_going_on(reason, message),
        phase=phase,
        message=message,
        generation=situation.world.sweep.generation,
        now=situation.world.now,
    )
    told = situation.status.phase == phase or phase == "Pending"
    return SweepDecision(
        status=status,
        table=wanted if made is None else None,
        cancel=_cancelled(situation.world, situation.active) if end is not None else (),
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


def _cancelled(world: SweepWorld, runs: Iterable[SweptRun]) -> tuple[Ref, ...]:
    """Those of the runs that are to be told to end. Of a sweep that is over, or whose plan can't be read, all that are its by uid."""
    told = (run for run in runs if not run.ended and not run.cancelling and not run.deleting)
    return tuple(Ref(KIND, world.sweep.namespace, run.name, run.uid) for run in told)


def _refused(world: SweepWorld, status: BenchmarkSweepStatus, problem: str) -> SweepDecision:
    problem = sentence(problem)
    ended = condition_table.standing(
        status,
        condition_table.sweep_ended_early(SweepReason.INVALID_SPEC, problem),
        phase="Failed",
        message=problem,
        generation=world.sweep.generation,
        now=world.now,
    )
    return SweepDecision(
        status=ended.model_copy(update={"completion_time": timestamp(world.now)}),
        cancel=_cancelled(world, world.runs.values()),
        forget=True,
        events=(Event(SweepReason.INVALID_SPEC, problem, warning=True),),
    )
