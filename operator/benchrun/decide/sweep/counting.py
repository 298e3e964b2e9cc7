"""How far a sweep is: counts of its runs, and how each variant fares."""

from __future__ import annotations

from benchrun.api.sweep.status import RunCounts, SweepEstimate, VariantStatus
from benchrun.decide.sweep.situation import SweepSituation
from benchrun.plan.stages import estimate
from benchrun.plan.sweep.variants import Variant

MAX_MESSAGE_CHARS = 200


def run_counts(situation: SweepSituation, *, tabled: int) -> RunCounts:
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
    runs = situation.of_variant(variant)
    early = next((run for run in runs if run.state in ("Failed", "Cancelled")), None)
    return VariantStatus(
        name=variant.name,
        number=variant.number,
        gpus=variant.gpus,
        completed=sum(run.state == "Completed" for run in runs),
        failed=sum(run.state in ("Failed", "Cancelled") for run in runs),
        lost=situation.lost(variant),
        verdict=None if before is None else before.verdict,
        reason=None if early is None else early.reason,
        run=None if early is None else early.name,
        message=None if early is None else early.message[:MAX_MESSAGE_CHARS],
        searches=[] if before is None else before.searches,
        outcome=None if before is None else before.outcome,
    )
