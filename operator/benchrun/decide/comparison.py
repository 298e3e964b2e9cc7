"""A run that was measured, held against the baseline its spec names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.comparison import Baseline, ComparedRun, Comparison
from benchrun.api.conditions import ConditionStatus, Reason
from benchrun.api.status import BenchmarkRunStatus, Truncated
from benchrun.decide import bounds
from benchrun.decide.situation import Situation
from benchrun.judge.comparison.compare import Compared, compare, not_comparable
from benchrun.judge.comparison.fitting import fitted_cells
from benchrun.judge.comparison.runs import MeasuredRun, measured_run, results_digest
from benchrun.observe.views import Run

_CONDITION: dict[str | None, tuple[ConditionStatus, str]] = {
    "NotRegressed": ("True", Reason.NOT_REGRESSED),
    "Regressed": ("False", Reason.REGRESSED),
    "Inconclusive": ("Unknown", Reason.INCONCLUSIVE),
}


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """What a comparison adds to the last status."""

    comparison: Comparison
    truncated: Sequence[Truncated]

    @property
    def not_regressed(self) -> tuple[ConditionStatus, str]:
        """Status and reason of the condition."""
        return _CONDITION[self.comparison.gate]


def baseline_wanted(situation: Situation) -> str | None:
    """The run to look up before this one can be judged; None: there is none, or it was looked for."""
    baseline = situation.spec.baseline
    return None if baseline is None or situation.collected.baseline_sought else baseline.name


def held_against(situation: Situation, ended: BenchmarkRunStatus) -> HeldAgainst | None:
    """The comparison of the run, as it ended, with its baseline; None if its spec names none."""
    baseline, found = situation.spec.baseline, situation.collected.baseline
    if baseline is None:
        return None
    compared = _compared(situation, ended, baseline, found)
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
        message=bounds.sentence(compared.message),
        cells=list(cells),
    )
    return HeldAgainst(comparison, truncated)


def _compared(situation: Situation, ended: BenchmarkRunStatus, baseline: Baseline, found: Run | None) -> Compared:
    if found is None:
        return not_comparable(f"there is no run {baseline.name} in the namespace", gated=True)
    try:
        before = measured_run(found)
    except ValueError:
        return not_comparable(f"{baseline.name} was written by another version of the API", gated=True)
    return compare(
        [before],
        [MeasuredRun(situation.owner.name, situation.owner.uid, situation.spec, ended)],
        metrics=baseline.metrics,
        max_regression_percent=float(baseline.max_regression_percent),
    )
