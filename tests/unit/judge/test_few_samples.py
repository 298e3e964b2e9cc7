"""Percentiles that so few requests don't bound, told once a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from benchrun.api import Objective
from benchrun.judge.rules.rule import CellContext, Code, StageFinding
from benchrun.judge.rules.sample_size import too_few_samples
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import pools_of
from unit.judge.stages import OPEN_LOOP, findings
from unit.measure.records import CELL, cell, record, requests


def of(count: int, *percentiles: str, stages: int = 1, tokens: int = 2) -> CellContext:
    columns = requests(ttft_us=[1000] * count, e2el_us=[2000] * count, output_tokens=[tokens] * count)
    records = [record(stage, requests=columns) for stage in cell(repeats=stages).stage_ids]
    return CellContext(cell(repeats=stages), Thresholds(), OPEN_LOOP, percentiles, (), pools_of(records))


@pytest.mark.parametrize(
    ("open_ended", "context"),
    [
        pytest.param("99", of(367, "99"), id="p99 of 367"),
        pytest.param(None, of(368, "99"), id="p99 of 368"),
        pytest.param(None, of(184, "99", stages=2), id="p99 of two repeats together"),
        pytest.param("50", of(5, "50"), id="a median of five"),
        pytest.param(None, of(6, "50"), id="a median of six"),
        pytest.param("99.9", of(3687, "50", "99.9"), id="p99.9 of 3687"),
        pytest.param("1", of(367, "1"), id="low ones as well"),
        pytest.param("95, 99", of(50, "99", "50", "95"), id="several at once"),
        pytest.param(None, of(400, "99", stages=0), id="nothing was measured"),
    ],
)
def test_percentiles_without_a_bound(open_ended: str | None, context: CellContext) -> None:
    found = findings(too_few_samples(context))
    assert [(f.severity, f.evidence["percentiles"]) for f in found] == ([("Note", open_ended)] if open_ended else [])


def test_evidence_names_what_the_highest_needs() -> None:
    assert too_few_samples(of(50, "50", "95", "99")) == [
        StageFinding(
            Code.TOO_FEW_SAMPLES,
            "Note",
            CELL,
            {"samples": 50, "percentiles": "95, 99", "percentile": 99.0, "needed": 368},
            weight=99.0,
        )
    ]


def with_objective(
    context: CellContext, metric: Literal["TTFT", "TPOT", "ITL", "E2EL"], percentile: str
) -> CellContext:
    objective = Objective(metric=metric, percentile=percentile, max_milliseconds=500)
    return replace(context, objectives=(objective,))


def test_a_percentile_that_only_an_objective_asks_for_is_asked_for() -> None:
    (found,) = findings(too_few_samples(with_objective(of(400, "99"), "E2EL", "99.9")))
    assert (found.evidence["percentiles"], found.evidence["needed"]) == ("99.9", 3688)


@pytest.mark.parametrize(("tokens", "found"), [(2, True), (40, False)])
def test_an_objective_on_gaps_rests_on_as_many_as_there_are(tokens: int, found: bool) -> None:
    """400 requests have one gap each, or 39."""
    context = with_objective(of(400, "99", tokens=tokens), "ITL", "99.9")
    assert bool(findings(too_few_samples(context))) == found


def test_an_objective_that_rests_on_fewer_values_than_requests_counts_those() -> None:
    """Of 400 answers half have a single token, and no time per token after it."""
    half = [1, 2] * 200
    columns = requests(ttft_us=[1000] * 400, e2el_us=[2000] * 400, output_tokens=half)
    context = replace(of(400, "99"), pools=pools_of([record(requests=columns)]))
    (found,) = findings(too_few_samples(with_objective(context, "TPOT", "99")))
    assert (found.evidence["percentiles"], found.evidence["samples"]) == ("99", 200)


def test_a_latency_that_was_not_measured_lacks_no_samples() -> None:
    columns = requests(ttft_us=[1000] * 400, e2el_us=[2000] * 400, output_tokens=[1] * 400)
    context = replace(of(400, "99"), pools=pools_of([record(requests=columns)]))
    assert findings(too_few_samples(with_objective(context, "TPOT", "99"))) == []
