"""Percentiles that so few requests don't bound, told once a cell."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from benchrun.api import Objective
from benchrun.judge.rules.rule import CellContext, Code, StageFinding
from benchrun.judge.rules.sample_size import too_few_samples
from benchrun.judge.stage_facts import ExpectedLoad
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import StageRecord
from unit.judge.stages import OPEN_LOOP, context, findings, users
from unit.measure.records import CELL, cell, record, requests


def cell_of(count: int, *percentiles: str, stages: int = 1, tokens: int = 2) -> CellContext:
    columns = requests(
        ttft_us=[1000] * count, e2el_us=[2000] * count, output_tokens=[tokens] * count
    )
    return measured(
        [record(stage, requests=columns) for stage in cell(repeats=stages).stage_ids], *percentiles
    )


def measured(
    records: Sequence[StageRecord], *percentiles: str, load: ExpectedLoad = OPEN_LOOP
) -> CellContext:
    stages = tuple(map(context(load=load), records))
    return CellContext(cell(repeats=len(stages)), Thresholds(), load, percentiles, stages)


@pytest.mark.parametrize(
    ("open_ended", "of_cell"),
    [
        pytest.param("99", cell_of(367, "99"), id="p99 of 367"),
        pytest.param(None, cell_of(368, "99"), id="p99 of 368"),
        pytest.param(None, cell_of(184, "99", stages=2), id="p99 of two repeats together"),
        pytest.param("50", cell_of(5, "50"), id="a median of five"),
        pytest.param("50", cell_of(9, "50"), id="a median of nine, two in flight: five rounds"),
        pytest.param(None, cell_of(40, "50"), id="a median of twenty rounds"),
        pytest.param("99.9", cell_of(3687, "50", "99.9"), id="p99.9 of 3687"),
        pytest.param("1", cell_of(367, "1"), id="low ones as well"),
        pytest.param("95, 99", cell_of(50, "99", "50", "95"), id="several at once"),
        pytest.param(None, cell_of(400, "99", stages=0), id="nothing was measured"),
    ],
)
def test_percentiles_without_a_bound(open_ended: str | None, of_cell: CellContext) -> None:
    found = findings(too_few_samples(of_cell))
    assert [(f.severity, f.evidence["percentiles"]) for f in found] == (
        [("Note", open_ended)] if open_ended else []
    )


def test_evidence_names_what_the_highest_needs() -> None:
    assert too_few_samples(cell_of(50, "50", "95", "99")) == [
        StageFinding(
            Code.TOO_FEW_SAMPLES,
            "Note",
            CELL,
            {"samples": 50, "percentiles": "95, 99", "percentile": "99", "needed": 368},
            weight=368 / 50,
        )
    ]


def with_objective(
    cell: CellContext, metric: Literal["TTFT", "TPOT", "ITL", "E2EL"], percentile: str
) -> CellContext:
    objective = Objective(metric=metric, percentile=percentile, max_milliseconds=500)
    return replace(cell, objectives=(objective,))


def test_a_percentile_that_only_an_objective_asks_for_is_requested() -> None:
    (found,) = findings(too_few_samples(with_objective(cell_of(400, "99"), "E2EL", "99.99")))
    assert [found.evidence[key] for key in ("percentiles", "percentile", "needed")] == [
        "99.99",
        "99.99",
        36887,
    ]


@pytest.mark.parametrize(("tokens", "found"), [(2, True), (40, False)])
def test_an_objective_on_gaps_rests_on_as_many_as_there_are(tokens: int, found: bool) -> None:
    """400 requests have one gap each, or 39."""
    context_with_objective = with_objective(cell_of(400, "99", tokens=tokens), "ITL", "99.9")
    assert bool(findings(too_few_samples(context_with_objective))) == found


def test_an_objective_that_rests_on_fewer_values_than_requests_counts_those() -> None:
    """Of 400 answers half have a single token, and no time per token after it."""
    half = [1, 2] * 200
    columns = requests(ttft_us=[1000] * 400, e2el_us=[2000] * 400, output_tokens=half)
    half_answered = measured([record(requests=columns)], "99")
    (found,) = findings(too_few_samples(with_objective(half_answered, "TPOT", "99")))
    assert (found.evidence["percentiles"], found.evidence["samples"]) == ("99", 200)


def test_a_latency_that_was_not_measured_lacks_no_samples() -> None:
    columns = requests(ttft_us=[1000] * 400, e2el_us=[2000] * 400, output_tokens=[1] * 400)
    half_answered = measured([record(requests=columns)], "99")
    assert findings(too_few_samples(with_objective(half_answered, "TPOT", "99"))) == []


def test_a_stage_that_is_too_short_for_its_queue_tells_how_many_cycles_it_has() -> None:
    """The queue fills and empties three times in 900 requests."""
    waits = [abs(i % 300 - 150) * 1000 for i in range(900)]
    sent = [i * 3_000 for i in range(900)]
    columns = requests(
        start_us=sent, ttft_us=waits, e2el_us=[w + 1000 for w in waits], output_tokens=[2] * 900
    )
    (found,) = findings(too_few_samples(measured([record(requests=columns)], "99")))
    assert (found.severity, found.evidence["parts"], found.evidence["partsNeeded"]) == (
        "Note",
        3,
        30,
    )
    assert "needed" not in found.evidence


def test_a_closed_loop_has_pairs_of_rounds() -> None:
    columns = requests(ttft_us=[1000] * 400, e2el_us=[2000] * 400, output_tokens=[2] * 400)
    few, enough = (
        findings(too_few_samples(measured([record(requests=columns)], "99", load=users(each))))
        for each in (50, 25)
    )
    assert (few[0].evidence["parts"], few[0].evidence["partsNeeded"]) == (4, 8)
    assert enough == []
