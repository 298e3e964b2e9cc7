"""The best variant by each objective: most output tokens a second and GPU among those that keep it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchrun.api.measurement import Objective
from benchrun.api.sweep.status import BestVariant
from benchrun.judge.comparison.words import Question, answers
from benchrun.judge.sweep.contenders import Contender
from benchrun.measure.cells import rounded

THROUGHPUT = "throughput"
EVERY_OBJECTIVE = "every objective"


def best_variants(contenders: Sequence[Contender], objectives: Sequence[Objective]) -> tuple[BestVariant, ...]:
    """By workload: by throughput alone, by each objective, and where there are several, by all of them."""
    asked: list[tuple[str, Sequence[Objective]]] = [(THROUGHPUT, ())]
    asked += [(objective_name(objective), (objective,)) for objective in objectives]
    asked += [(EVERY_OBJECTIVE, objectives)] if len(objectives) > 1 else []
    found = [
        _best(name, [c for c in contenders if c.workload == workload and all(map(c.keeps, limits))])
        for workload in dict.fromkeys(contender.workload for contender in contenders)
        for name, limits in asked
    ]
    return tuple(best for best in found if best is not None)


def objective_name(objective: Objective) -> str:
    """`TTFT p99 <= 500 ms`."""
    return f"{objective.metric} p{objective.percentile} <= {objective.max_milliseconds} ms"


def _best(objective: str, contenders: Iterable[Contender]) -> BestVariant | None:
    tops: dict[str, Contender] = {}
    for contender in contenders:
        name = contender.side.variant.name
        if name not in tops or contender.throughput > tops[name].throughput:
            tops[name] = contender
    if not tops:
        return None
    first, *others = sorted(tops.values(), key=lambda top: -top.throughput)
    return BestVariant(
        workload=first.workload,
        objective=objective,
        variant=first.side.variant.name,
        cell=first.cell,
        throughput_per_gpu=rounded(first.throughput) or 0.0,
        tied_with=_tied(first, others),
    )


def _tied(first: Contender, others: Sequence[Contender]) -> list[str]:
    """Those whose difference from the first is not more than noise, or whose noise is not known."""
    words = answers([Question("OutputThroughput", first.per_gpu, other.per_gpu) for other in others])
    return [other.side.variant.name for other, change in zip(others, words, strict=True) if change.word != "Worse"]
