"""A run compared with the baseline that its spec names, cut to its share of the status."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from benchrun.api import (
    Baseline,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    ComparedCell,
    ComparedRun,
    Comparison,
    ConditionStatus,
    Judgement,
    Reason,
    ServerStatus,
    Truncated,
    Word,
    sentence,
)
from benchrun.judge.comparison.comparability import MeasuredRun, measured_run, results_digest
from benchrun.judge.comparison.compare import Compared, compare, not_comparable
from benchrun.judge.status_size import cut_to, json_bytes, truncations, without_changes
from benchrun.observe import Run

MAX_COMPARISON_BYTES = 16_000
"""Of its load points."""
SHARE_BYTES = MAX_COMPARISON_BYTES + 3_000
"""Of the status: with its message, which the condition repeats."""
_ORDER: tuple[Word, ...] = ("NotComparable", "Unknown", "Equivalent", "NoDetectableDifference", "Better")


def fitted_cells(
    cells: Sequence[ComparedCell], *, max_bytes: int = MAX_COMPARISON_BYTES
) -> tuple[tuple[ComparedCell, ...], tuple[Truncated, ...]]:
    """Changes of one word after the other, then whole load points from the end. The words of all stay in the message."""
    whole = tuple(cells)
    cuts = (partial(without_changes, word=word) for word in _ORDER)
    kept = cut_to(max_bytes, whole, size=json_bytes, cuts=cuts, shorter=lambda cells: cells[:-1])
    changes = [sum(len(cell.changes) for cell in cells) for cells in (whole, kept)]
    counts = ("comparison.cells", len(whole), len(kept)), ("comparison.cells[].changes", changes[0], changes[1])
    return kept, truncations(counts)


_CONDITION: dict[str | None, tuple[ConditionStatus, str]] = {
    "NotRegressed": ("True", Reason.NOT_REGRESSED),
    "Regressed": ("False", Reason.REGRESSED),
    "Underpowered": ("Unknown", Reason.UNDERPOWERED),
    "Inconclusive": ("Unknown", Reason.INCONCLUSIVE),
}
_ENDED = "1970-01-01T00:00:00Z"
"""A run is compared when it was measured to its end, and its status does not say so yet; when that was makes no difference."""


class MeasuredNow(NamedTuple):
    """The run that is being judged."""

    name: str
    uid: str
    spec: BenchmarkRunSpec
    servers: Sequence[ServerStatus]


def against_baseline(now: MeasuredNow, judgement: Judgement, baseline: Baseline, found: Run | None) -> Judgement:
    """The judgement with its comparison. `found`: the baseline; None: there is no such run."""
    compared = _compared(now, judgement, baseline, found)
    cells, truncated = fitted_cells(compared.cells)
    comparison = Comparison(
        baseline=ComparedRun(
            name=baseline.name,
            uid=None if found is None else found.uid,
            digest=None if found is None else results_digest(found),
        ),
        scope=compared.scope,
        outcome=compared.outcome,
        gate=compared.gate,
        detectable_percent=compared.detectable_percent,
        message=sentence(compared.message),
        cells=list(cells),
    )
    status, reason = _CONDITION[comparison.gate]
    update = {"comparison": comparison, "not_regressed": status, "not_regressed_reason": reason}
    return judgement.model_copy(update=update | {"truncated": [*judgement.truncated, *truncated]})


def _compared(now: MeasuredNow, judgement: Judgement, baseline: Baseline, found: Run | None) -> Compared:
    if found is None:
        return not_comparable(f"there is no run {baseline.name} in the namespace", gated=True)
    try:
        before = measured_run(found)
    except ValueError:
        return not_comparable(f"{baseline.name} was written by another version of the API", gated=True)
    ended = BenchmarkRunStatus(
        completion_time=_ENDED, servers=list(now.servers), client=judgement.client, results=judgement.results
    )
    try:
        after = MeasuredRun(now.name, now.uid, now.spec, ended)
        allowed, least = float(baseline.max_regression_percent), float(baseline.equivalence_percent)
        metrics = baseline.metrics
        return compare([before], [after], metrics=metrics, max_regression_percent=allowed, equivalence_percent=least)
    except (ArithmeticError, ValueError):
        return not_comparable(f"the figures of {baseline.name} are out of range", gated=True)
