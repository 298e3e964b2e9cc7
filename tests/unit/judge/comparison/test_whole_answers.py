"""Comparison and best variant of embeddings: by the figures that they have."""

from collections.abc import Sequence

import pytest
from benchrun.api import DEFAULT_METRICS, KEYS, ComparedMetric, Result
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.sweep.best import Side, best_variants, contenders
from benchrun.plan import planned_variants
from unit.judge.comparison.sides import LOAD_POINT, compared, row, run, words
from unit.sweep.sweeps import sweep_spec, variant

EMBEDDED: Sequence[ComparedMetric] = (
    "RequestThroughput",
    "TotalTokenThroughput",
    "MeanE2EL",
)


def embedded(faster: float = 1.0) -> Result:
    """Build a row of embeddings; above 1 it has so much more throughput."""
    made = row(
        repeats=5,
        cv=0.2,
        RequestThroughput=80.0 * faster,
        TotalTokenThroughput=8000.0 * faster,
        MeanE2EL=100.0 / faster,
    )
    kept = {KEYS[name]: made.metrics[KEYS[name]] for name in EMBEDDED}
    noise = dict.fromkeys(kept, 0.2)
    return made.model_copy(update={"metrics": kept, "repeat_cv_percent": noise})


def side(name: str, faster: float = 1.0) -> MeasuredRun:
    return run(name, [embedded(faster)])


def test_figures_that_there_are_not_are_not_asked() -> None:
    found = compared(side("a"), side("b", 2.0), *DEFAULT_METRICS, limit=5.0)
    assert words(found) == {"RequestThroughput": "Better", "MeanE2EL": "Better"}
    assert found.outcome == "Better"
    assert found.gate == "NotRegressedHere"


def test_a_gate_of_nothing_else_does_not_pass() -> None:
    found = compared(side("a"), side("b"), "MeanTTFT", limit=5.0)
    assert words(found) == {"MeanTTFT": "NotComparable"}
    assert found.gate not in ("NotRegressed", "NotRegressedHere")


def test_what_one_side_lacks_is_not_comparable() -> None:
    texts = run("b", repeats=5, cv=0.2)
    assert words(compared(side("a"), texts))["MeanTTFT"] == "NotComparable"


def test_the_best_variant_has_most_prompt_tokens_a_second() -> None:
    spec = sweep_spec([variant("base"), variant("wide")])
    speeds = {"base": 1.0, "wide": 1.5}
    sides = [
        Side(each, (side(each.name, speeds[each.name]),))
        for each in planned_variants(spec)
    ]
    (best,) = best_variants(contenders(sides, (LOAD_POINT,)), [])
    assert best.variant == "wide"
    assert best.throughput == pytest.approx(12_000)
