"""One pass over one sweep. Read `decide` from top to bottom; each step may end the pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchrun.api import has_ended, sentence, timestamp
from benchrun.api.sweep.status import (
    BenchmarkSweepStatus,
    RunCounts,
    SweepEstimate,
    SweepPhase,
    SweepReason,
    SweepTable,
    TabledRun,
    VariantStatus,
    read_sweep_status,
)
from benchrun.decide import condition_table
from benchrun.decide.situation import Unacceptable
from benchrun.decide.sweep.decision import (
    SweepDecision,
    SweepSituation,
    SweepWorld,
    TableMade,
    TableWanted,
    accept_sweep,
)
from benchrun.decide.world import CANCELLED, Ending, Event, Ref
from benchrun.names import KIND
from benchrun.observe.run_outcomes import SweptRun
from benchrun.plan.stages import estimate
from benchrun.plan.variants import PlannedRun, Variant, run_manifest


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
    rows, world = condition_table.sweep_going_on(reason, message), situation.world
    status = condition_table.standing(counted, rows, phase, message, of=world.sweep, now=world.now)
    told = situation.status.phase == phase or phase == "Pending"
    return SweepDecision(
        status=status,
        table=wanted if made is None else None,
        cancel=_cancelled(world, situation.active) if end is not None else (),
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
    """Those of the runs that are to be cancelled. Of a sweep that is over, or whose plan can't be read, all that are its by uid."""
    going_on = (run for run in runs if not run.ended and not run.cancelling and not run.deleting)
    return tuple(Ref(KIND, world.sweep.namespace, run.name, run.uid) for run in going_on)


def _refused(world: SweepWorld, status: BenchmarkSweepStatus, problem: str) -> SweepDecision:
    problem = sentence(problem)
    rows = condition_table.sweep_ended_early(SweepReason.INVALID_SPEC, problem)
    ended = condition_table.standing(status, rows, "Failed", problem, of=world.sweep, now=world.now)
    return SweepDecision(
        status=ended.model_copy(update={"completion_time": timestamp(world.now)}),
        cancel=_cancelled(world, world.runs.values()),
        forget=True,
        events=(Event(SweepReason.INVALID_SPEC, problem, warning=True),),
    )


MAX_MESSAGE_CHARS = 200


def is_tabled(situation: SweepSituation) -> bool:
    """Whether the status holds the table of just the runs that have ended."""
    return tabled_runs(situation) == len(situation.ended)


def tabled_runs(situation: SweepSituation) -> int:
    """How many runs the table in the status is made of."""
    runs = situation.status.runs
    return 0 if runs is None else runs.tabled


def to_read(situation: SweepSituation) -> tuple[str, ...]:
    """Runs whose figures the table needs and memory lacks."""
    measured = situation.world.collected.measured
    return tuple(run.name for run in situation.ended if run.state == "Completed" and run.uid not in measured)


def table_wanted(situation: SweepSituation) -> TableWanted:
    """The table of all runs that have ended."""
    told = variant_statuses(situation)
    return TableWanted(
        baseline=situation.baseline,
        runs=tuple(
            TabledRun(variant=variant.name, name=run.name, uid=run.uid)
            for variant in situation.variants
            for run in situation.of_variant(variant)
            if run.state == "Completed"
        ),
        # In the word of the first run that ended early.
        missing=tuple((variant.name, variant.reason) for variant in told if variant.reason is not None),
    )


def table_made(situation: SweepSituation) -> TableMade | None:
    """That table, or why there is none; None: it is still to be made."""
    made = situation.world.collected.table
    return made if made is not None and made.wanted == table_wanted(situation) else None


def tabled(situation: SweepSituation, made: TableMade) -> BenchmarkSweepStatus:
    """The status with the table of all runs that have ended; with the one before where that could not be made."""
    counted = counted_anew(situation, tabled=len(situation.ended))
    return counted if made.table is None else _with_table(situation, counted, made.table)


def counted_anew(situation: SweepSituation, *, tabled: int) -> BenchmarkSweepStatus:
    """The status with the counts of now, and the table that it has."""
    update = {"runs": _run_counts(situation, tabled=tabled), "variants": variant_statuses(situation)}
    return situation.status.model_copy(update=update)


def _with_table(situation: SweepSituation, counted: BenchmarkSweepStatus, table: SweepTable) -> BenchmarkSweepStatus:
    cost = situation.spec.template.cost
    variants = [
        variant.model_copy(
            update={
                "outcome": table.outcomes.get(variant.name),
                "verdict": table.verdicts.get(variant.name),
                "searches": table.searches.get(variant.name, []),
            }
        )
        for variant in counted.variants
    ]
    update = {
        "baseline": situation.baseline,
        "currency": cost.currency if cost is not None else None,
        "variants": variants,
    } | {name: getattr(table, name) for name in ("scope", "results", "best", "front", "verdict", "truncated")}
    return counted.model_copy(update=update)


def _run_counts(situation: SweepSituation, *, tabled: int) -> RunCounts:
    """The runs by where they are."""
    states = [run.state for run in situation.in_order]
    return RunCounts(
        running=states.count("Running"),
        completed=states.count("Completed"),
        failed=states.count("Failed"),
        cancelled=states.count("Cancelled"),
        skipped=len(situation.skipped),
        waiting=len(situation.waiting),
        lost=situation.lost(),
        tabled=tabled,
        summary=f"{len(situation.ended)}/{len(situation.planned)}",
    )


def variant_statuses(situation: SweepSituation) -> list[VariantStatus]:
    """One entry a variant, as listed; outcome and verdict as the last table had them."""
    before = {variant.name: variant for variant in situation.status.variants}
    return [_variant(situation, variant, before.get(variant.name)) for variant in situation.variants]


def sweep_estimate(situation: SweepSituation) -> SweepEstimate:
    """What all runs together will ask for."""
    each = [estimate(variant.spec) for variant in situation.variants]
    replications = situation.spec.replications
    return SweepEstimate(
        variants=len(each),
        runs=len(situation.planned),
        stages=replications * sum(one.stages for one in each),
        requests=replications * sum(one.requests for one in each),
    )


def _variant(situation: SweepSituation, variant: Variant, before: VariantStatus | None) -> VariantStatus:
    runs, before = situation.of_variant(variant), before or VariantStatus(name=variant.name, number=variant.number)
    early = next((run for run in runs if run.state in ("Failed", "Cancelled")), None)
    return VariantStatus(
        name=variant.name,
        number=variant.number,
        gpus=variant.gpus,
        completed=sum(run.state == "Completed" for run in runs),
        failed=sum(run.state in ("Failed", "Cancelled") for run in runs),
        lost=situation.lost(variant),
        verdict=before.verdict,
        reason=None if early is None else early.reason,
        run=None if early is None else early.name,
        message=None if early is None else early.message[:MAX_MESSAGE_CHARS],
        searches=before.searches,
        outcome=before.outcome,
    )


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
    world = situation.world
    status = tabled(situation, made).model_copy(update={"completion_time": timestamp(world.now)})
    early = end or _without_a_table(situation)
    phase: SweepPhase = "Completed" if early is None else early.phase
    if early is None:
        reason, message = _outcome(situation, status, made)
        rows = condition_table.sweep_measured(reason, message)
    else:
        reason, message = early.reason, sentence(early.message)
        rows = condition_table.sweep_ended_early(reason, message)
    status = condition_table.standing(status, rows, phase, message, of=world.sweep, now=world.now)
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
        return SweepReason.INVALID_CELLS, f"{measured}, but some rows are invalid: do not use their numbers"
    if status.verdict == "Suspect":
        return SweepReason.SUSPECT, f"{measured}; some rows are suspect"
    return SweepReason.ALL_VALID, f"{measured}; every row is valid"
