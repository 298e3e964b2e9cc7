"""One reconcile of one sweep.

Read `decide` from top to bottom; each step may end the reconcile.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from benchrun.api import (
    ended_early,
    has_ended,
    read_leniently,
    sentence,
    sweep as api,
    swept_metrics,
    timestamp,
)
from benchrun.api.sweep import (
    BenchmarkSweepStatus,
    SweepPhase,
    SweepReason,
    VariantStatus,
)
from benchrun.decide import (
    CANCELLED,
    Ending,
    Event,
    Ref,
    Unacceptable,
    condition_table,
)
from benchrun.decide.patience import REFUSED_SECONDS, RETRIED_SECONDS
from benchrun.decide.sweep.sweep_state import (
    NotCreated,
    SweepDecision,
    SweepFacts,
    SweepState,
    TableMade,
    TableWanted,
    accept_sweep,
)
from benchrun.measure import SERVERS, power_sentence
from benchrun.names import KIND
from benchrun.observe import Sweep, SweptRun
from benchrun.plan import PlannedRun, Variant, estimate, load_points, run_manifest


def decide(facts: SweepFacts) -> SweepDecision:
    """Decide what to do about a sweep now.

    The same observed state gives the same decision. Once a decision is carried out, deciding again
    changes nothing.
    """
    status = read_leniently(BenchmarkSweepStatus, facts.sweep.status)
    if facts.sweep.deleting:
        return SweepDecision(
            status=status,
            cancel=cancellations(facts.sweep, facts.runs.values()),
            forget=True,
        )
    if has_ended(status.conditions):
        # Tools wait for the generation to be seen, whatever was edited after the end.
        seen = status.model_copy(
            update={"observed_generation": facts.sweep.generation}
        )
        return SweepDecision(
            status=seen,
            cancel=cancellations(facts.sweep, facts.runs.values()),
            forget=True,
        )
    try:
        spec, variants = accept_sweep(facts.sweep)
    except Unacceptable as error:
        return _refused(facts, status, str(error))
    state = _noticed(
        SweepState(facts=facts, spec=spec, variants=variants, status=status)
    )
    wanted = to_read(state)
    end = ending(state)
    starting = () if end is not None else state.to_start
    # something is left to start, only not now
    waits = bool(state.waiting) and state.spec.suspend
    is_over = not starting and not state.active and (end is not None or not waits)
    if wanted and (is_over or not is_tabled(state)):
        return SweepDecision(status=status, read=wanted)
    if not is_over:
        return _go_on(state, end, starting)
    made = table_made(state)
    return (
        finish(state, end, made)
        if made
        else replace(_go_on(state, end, starting), table=table_wanted(state))
    )


def _noticed(state: SweepState) -> SweepState:
    """Return the state with the status fields that are known once the spec was accepted."""
    status = state.status
    update = {
        "accepted_time": status.accepted_time or timestamp(state.facts.now),
        "estimate": status.estimate or _estimate(state),
        "baseline": state.baseline,
        "gpu_seconds": round(sum(state.gpu_seconds), 1),
    }
    return replace(state, status=status.model_copy(update=update))


def _go_on(
    state: SweepState, end: Ending | None, starting: tuple[PlannedRun, ...]
) -> SweepDecision:
    wanted = None if is_tabled(state) else table_wanted(state)
    made = table_made(state) if wanted is not None else None
    # The table anew only where one more run has ended.
    counted = (
        tabled(state, made)
        if made
        else counted_anew(state, tabled=tabled_runs(state))
    )
    phase, reason, message = _step(state, end, starting)
    rows = condition_table.sweep_going_on(reason, message, power=_power(state))
    facts = state.facts
    status = condition_table.standing(
        counted, rows, phase, message, of=facts.sweep, now=facts.now
    )
    is_news = state.status.phase != phase
    return SweepDecision(
        status=status,
        table=wanted if made is None else None,
        cancel=cancellations(facts.sweep, state.active) if end is not None else (),
        create=tuple(run_manifest(state.owner, planned) for planned in starting),
        events=(Event(phase, message),) if is_news else (),
    )


def _step(
    state: SweepState, end: Ending | None, starting: tuple[PlannedRun, ...]
) -> tuple[SweepPhase, str, str]:
    """Return phase, reason and message of a sweep that has not ended."""
    names = [run.name for run in state.active]
    going = (
        f"{names[0]} is still running"
        if len(names) == 1
        else f"{len(names)} runs are still running"
        if names
        else "no run holds a GPU"
    )
    refused = state.facts.collected.not_created
    if end is not None:
        return (
            "Running",
            SweepReason.ENDING,
            sentence(f"{end.message}; {going} until cancelled"),
        )
    if refused is not None and starting:
        reason = (
            SweepReason.QUOTA_EXCEEDED if refused.quota else SweepReason.RUN_REFUSED
        )
        return "Running", reason, sentence(f"{refused.message}; {going}")
    done = f"{len(state.ended)} of {len(state.planned)} runs have ended"
    if state.spec.suspend:
        return (
            "Suspended",
            SweepReason.SUSPENDED,
            f"suspended by spec.suspend; {done}, {going}",
        )
    if starting and not names and not state.ended:
        return (
            "Running",
            SweepReason.MEASURING,
            f"starting the first of {len(state.planned)} runs",
        )
    return "Running", SweepReason.MEASURING, f"{done}, {going}"


def _power(state: SweepState) -> str:
    """Return a sentence on what the sweep's comparisons can detect, before anything is measured."""
    spec = state.spec
    others = len(state.variants) - 1
    questions = (
        others
        * len(load_points(spec.template))
        * len(swept_metrics(spec.replications))
    )
    if spec.replications == 1:
        return (
            power_sentence(spec.template.most_repeats, questions, unit="repeats")
            if others
            else ""
        )
    return (
        power_sentence(spec.replications, questions, unit=SERVERS) if others else ""
    )


def cancellations(sweep: Sweep, runs: Iterable[SweptRun]) -> tuple[Ref, ...]:
    """Return the runs to cancel: those that have not ended and are not being cancelled or deleted.

    If the sweep is over, or its spec can't be read, `runs` are all runs that it owns by uid.
    """
    going_on = (
        run
        for run in runs
        if not run.ended and not run.cancelling and not run.deleting
    )
    return tuple(Ref(KIND, sweep.namespace, run.name, run.uid) for run in going_on)


def _refused(
    facts: SweepFacts, status: BenchmarkSweepStatus, problem: str
) -> SweepDecision:
    problem = sentence(problem)
    rows = ended_early("sweep", SweepReason.INVALID_SPEC, problem)
    ended = condition_table.standing(
        status, rows, "Failed", problem, of=facts.sweep, now=facts.now
    )
    return SweepDecision(
        status=ended.model_copy(update={"completion_time": timestamp(facts.now)}),
        cancel=cancellations(facts.sweep, facts.runs.values()),
        forget=True,
        events=(Event(SweepReason.INVALID_SPEC, problem, warning=True),),
    )


MAX_MESSAGE_CHARS = 200


def is_tabled(state: SweepState) -> bool:
    return tabled_runs(state) == len(state.ended)


def tabled_runs(state: SweepState) -> int:
    return 0 if state.status.runs is None else state.status.runs.tabled


def to_read(state: SweepState) -> tuple[str, ...]:
    """Return the names of the runs whose figures the table needs and memory lacks."""
    measured = state.facts.collected.measured
    return tuple(
        run.name
        for run in state.ended
        if run.state == "Completed" and run.uid not in measured
    )


def table_wanted(state: SweepState) -> TableWanted:
    """Return what the table of all ended runs is to be made of."""
    variants = variant_statuses(state)
    return TableWanted(
        baseline=state.baseline,
        runs=tuple(
            api.TabledRun(variant=variant.name, name=run.name, uid=run.uid)
            for variant in state.variants
            for run in state.of_variant(variant)
            if run.state == "Completed"
        ),
        # In the word of the first run that ended early.
        missing=tuple(
            (variant.name, variant.reason)
            for variant in variants
            if variant.reason is not None
        ),
    )


def table_made(state: SweepState) -> TableMade | None:
    """Return the wanted table, or why it could not be made; None if it is still to be made."""
    made = state.facts.collected.table
    return made if made is not None and made.wanted == table_wanted(state) else None


def tabled(state: SweepState, made: TableMade) -> BenchmarkSweepStatus:
    """Return the status with the table of all runs that have ended.

    If that table could not be made, the status keeps the table before.
    """
    counted = counted_anew(state, tabled=len(state.ended))
    table = made.table
    cost = state.spec.template.cost
    if table is None:
        return counted
    variants = []
    for variant in counted.variants:
        outcome = table.outcomes.get(variant.name)
        verdict = table.verdicts.get(variant.name)
        update = {
            "outcome": outcome,
            "verdict": verdict,
            "searches": table.searches.get(variant.name, []),
            "settings": table.settings.get(variant.name, []),
        }
        variants.append(variant.model_copy(update=update))
    of_table = {
        name: getattr(table, name)
        for name in (
            "scope",
            "detectable_percent",
            "results",
            "best",
            "front",
            "verdict",
            "truncated",
        )
    }
    currency = cost.currency if cost is not None else None
    of_sweep = {
        "baseline": state.baseline,
        "currency": currency,
        "variants": variants,
    }
    return counted.model_copy(update=of_sweep | of_table)


def counted_anew(state: SweepState, *, tabled: int) -> BenchmarkSweepStatus:
    """Return the status with the current counts; the table in it stays."""
    states = [run.state for run in state.in_order]
    counts = api.RunCounts(
        **{
            word.lower(): states.count(word)
            for word in ("Running", "Completed", "Failed", "Cancelled")
        },
        skipped=len(state.skipped),
        waiting=len(state.waiting),
        lost=state.lost(),
        tabled=tabled,
        summary=f"{len(state.ended)}/{len(state.planned)}",
    )
    return state.status.model_copy(
        update={"runs": counts, "variants": variant_statuses(state)}
    )


def variant_statuses(state: SweepState) -> list[VariantStatus]:
    """Return one entry per variant, as listed, with the outcome and verdict of the last table."""
    before = {variant.name: variant for variant in state.status.variants}
    return [
        _variant(state, variant, before.get(variant.name))
        for variant in state.variants
    ]


def _estimate(state: SweepState) -> api.SweepEstimate:
    each = [estimate(variant.spec) for variant in state.variants]
    times = state.spec.replications
    stages = times * sum(one.stages for one in each)
    requests = times * sum(one.requests for one in each)
    return api.SweepEstimate(
        variants=len(each),
        runs=len(state.planned),
        stages=stages,
        requests=requests,
    )


def _variant(
    state: SweepState, variant: Variant, before: VariantStatus | None
) -> VariantStatus:
    runs = state.of_variant(variant)
    before = before or VariantStatus(name=variant.name, number=variant.number)
    early = next(
        (run for run in runs if run.state in ("Failed", "Cancelled")), None
    )
    return VariantStatus(
        name=variant.name,
        number=variant.number,
        gpus=variant.gpus,
        completed=sum(run.state == "Completed" for run in runs),
        failed=sum(run.state in ("Failed", "Cancelled") for run in runs),
        lost=state.lost(variant),
        verdict=before.verdict,
        reason=None if early is None else early.reason,
        run=None if early is None else early.name,
        message=None if early is None else early.message[:MAX_MESSAGE_CHARS],
        searches=before.searches,
        settings=before.settings,
        outcome=before.outcome,
    )


def ending(state: SweepState) -> Ending | None:
    """Return why the sweep ends early, or None.

    In that case no more runs are started, and active runs are cancelled.
    """
    collected = state.facts.collected
    limit = state.spec.max_failed
    if state.spec.cancel:
        return CANCELLED
    if collected.conflict is not None:
        return Ending(
            SweepReason.CONFLICT, f"{collected.conflict}; rename one of the two"
        )
    if (refused := collected.not_created) is not None and not refused.curable:
        return Ending(SweepReason.RUN_INVALID, refused.message)
    if refused is not None and has_lasted(refused, state.facts.now):
        return Ending(SweepReason.RUN_REFUSED, refused.message)
    failed = [run for run in state.ended if run.state == "Failed"]
    if limit is not None and len(failed) > limit:
        last = failed[-1]
        message = (
            f"{len(failed)} runs failed and spec.maxFailed is {limit}; "
            f"{last.name}: {last.reason}"
        )
        return Ending(SweepReason.TOO_MANY_FAILED, message)
    return None


def has_lasted(refused: NotCreated, now: datetime) -> bool:
    """Return whether a run was refused for as long as the sweep waits for it.

    The sweep waits without a limit for room in a quota, and for a run of an earlier sweep of the
    same name to be removed: both may happen at any time.
    """
    if refused.quota or refused.leftover or refused.since is None:
        return False
    seconds = RETRIED_SECONDS if refused.retried else REFUSED_SECONDS
    return now >= refused.since + timedelta(seconds=seconds)


def finish(state: SweepState, end: Ending | None, made: TableMade) -> SweepDecision:
    """Decide on a sweep with no active run left.

    Everything is written at once, so that no reader ever sees an ended sweep without its table.
    """
    facts = state.facts
    status = tabled(state, made).model_copy(
        update={"completion_time": timestamp(facts.now)}
    )
    early = end or _without_a_table(state)
    if early is None:
        phase: SweepPhase = "Completed"
        reason, message = _outcome(state, status, made)
        rows = condition_table.sweep_measured(reason, message)
    else:
        phase = early.phase
        reason = early.reason
        message = sentence(early.message)
        rows = ended_early("sweep", reason, message)
    status = condition_table.standing(
        status, rows, phase, message, of=facts.sweep, now=facts.now
    )
    warning = phase == "Failed" or reason in (
        SweepReason.RUNS_FAILED,
        SweepReason.INVALID_LOAD_POINTS,
    )
    return SweepDecision(
        status=status, forget=True, events=(Event(phase, message, warning=warning),)
    )


def _without_a_table(state: SweepState) -> Ending | None:
    """Return the ending if the budget was spent too early, or nothing was measured; else None."""
    if state.waiting:
        message = (
            f"the budget of {state.spec.gpu_seconds_budget} GPU seconds has no room for another "
            f"run: {len(state.ended)} runs held {state.status.gpu_seconds:g} GPU seconds, "
            f"{len(state.waiting)} runs were not started"
        )
        return Ending(SweepReason.BUDGET_SPENT, message)
    if not any(run.state == "Completed" for run in state.ended):
        first = state.ended[0]
        return Ending(
            SweepReason.ALL_FAILED,
            f"no run was measured to its end; {first.name}: {first.reason}",
        )
    return None


def _outcome(
    state: SweepState, status: BenchmarkSweepStatus, made: TableMade
) -> tuple[str, str]:
    """Return reason and message of a sweep whose runs have all ended.

    The message names the variants that may be better than the best.
    """
    reason, message = _measured(state, status, made)
    found = [best for best in status.best if best.undecided]
    if made.table is None or not found:
        return reason, message
    # What an objective leaves open comes before Invalid load points.
    first = next((best for best in found if best.variant is not None), found[0])
    return reason, sentence(f"{message}; {first.undecided_text}")


def _measured(
    state: SweepState, status: BenchmarkSweepStatus, made: TableMade
) -> tuple[str, str]:
    total = len(state.variants)
    missing = [v for v in status.variants if not v.completed]
    measured = f"measured {total - len(missing)} of {total} variants"
    early = sum(run.state != "Completed" for run in state.ended)
    if early:
        first = (
            f"; {missing[0].name}: {missing[0].reason or 'not measured'}"
            if missing
            else ""
        )
        runs = "run" if early == 1 else "runs"
        return SweepReason.RUNS_FAILED, sentence(
            f"{measured}; {early} {runs} ended early{first}"
        )
    if made.table is None:
        return SweepReason.NOT_JUDGED, sentence(
            f"{measured}, but the table could not be made: {made.problem}"
        )
    if status.verdict == "Invalid":
        return (
            SweepReason.INVALID_LOAD_POINTS,
            f"{measured}, but some rows are invalid: do not use their numbers",
        )
    if status.verdict == "Suspect":
        return SweepReason.SUSPECT, f"{measured}; some rows are suspect"
    return SweepReason.ALL_VALID, f"{measured}; every row is valid"
