"""A run compared with the baseline that its spec names, cut to its share of the status."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchrun import api
from benchrun.judge.comparison.comparability import MeasuredRun, measured_run, results_digest
from benchrun.judge.comparison.compare import Compared, compare, not_comparable
from benchrun.judge.status_size import cut_to, json_bytes, truncations, without_changes
from benchrun.observe import Run

MAX_COMPARISON_BYTES = 16_000  # Of its load points.
SHARE_BYTES = MAX_COMPARISON_BYTES + 3_000  # Of the status: with its message, which the condition repeats.
_ORDER: tuple[api.Word, ...] = ("NotComparable", "Unknown", "Equivalent", "NoDetectableDifference", "Better")


def fitted_cells(
    cells: Sequence[api.ComparedCell], *, max_bytes: int = MAX_COMPARISON_BYTES
) -> tuple[tuple[api.ComparedCell, ...], tuple[api.Truncated, ...]]:
    """Changes of one word after the other, then whole load points from the end. The words of all stay in the message."""
    whole = tuple(cells)
    cuts = (partial(without_changes, word=word) for word in _ORDER)
    kept = cut_to(max_bytes, whole, size=json_bytes, cuts=cuts, shorter=lambda cells: cells[:-1])
    changes = [sum(len(cell.changes) for cell in cells) for cells in (whole, kept)]
    counts = ("comparison.cells", len(whole), len(kept)), ("comparison.cells[].changes", changes[0], changes[1])
    return kept, truncations(counts)


_CONDITION: dict[str | None, tuple[api.ConditionStatus, str]] = {
    "NotRegressed": ("True", api.Reason.NOT_REGRESSED),
    "Regressed": ("False", api.Reason.REGRESSED),
    "Underpowered": ("Unknown", api.Reason.UNDERPOWERED),
    "Inconclusive": ("Unknown", api.Reason.INCONCLUSIVE),
}
_ENDED = "1970-01-01T00:00:00Z"
"""A run is compared when it was measured to its end, and its status does not say so yet; when that was makes no difference."""


def against_baseline(
    name: str,
    uid: str,
    spec: api.BenchmarkRunSpec,
    judgement: api.Judgement,
    *,
    servers: Sequence[api.ServerStatus],
    baseline: api.Baseline,
    found: Run | None,
) -> api.Judgement:
    """The judgement of the run with its comparison. `found`: the baseline; None: there is no such run."""
    status = api.BenchmarkRunStatus(
        completion_time=_ENDED, servers=list(servers), client=judgement.client, results=judgement.results
    )
    compared = _compared(MeasuredRun(name, uid, spec, status), baseline, found)
    cells, truncated = fitted_cells(compared.cells)
    comparison = api.Comparison(
        baseline=api.ComparedRun(
            name=baseline.name, uid=found.uid if found else None, digest=results_digest(found) if found else None
        ),
        scope=compared.scope,
        outcome=compared.outcome,
        gate=compared.gate,
        detectable_percent=compared.detectable_percent,
        message=api.sentence(compared.message),
        cells=list(cells),
    )
    condition, reason = _CONDITION[comparison.gate]
    update = {"comparison": comparison, "not_regressed": condition, "not_regressed_reason": reason}
    return judgement.model_copy(update=update | {"truncated": [*judgement.truncated, *truncated]})


def _compared(after: MeasuredRun, baseline: api.Baseline, found: Run | None) -> Compared:
    if found is None:
        return not_comparable(f"there is no run {baseline.name} in the namespace", gated=True)
    try:
        before = measured_run(found)
    except ValueError:
        return not_comparable(f"{baseline.name} was written by another version of the API", gated=True)
    allowed, least = float(baseline.max_regression_percent), float(baseline.equivalence_percent)
    metrics = baseline.metrics
    try:
        return compare([before], [after], metrics=metrics, max_regression_percent=allowed, equivalence_percent=least)
    except (ArithmeticError, ValueError):
        return not_comparable(f"the figures of {baseline.name} are out of range", gated=True)
