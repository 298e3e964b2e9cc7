"""Percentiles that so few requests don't bound, told once a load point."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from benchrun.api import Objective
from benchrun.judge.rules.rule import Code, LoadPointContext
from benchrun.judge.rules.sample_size import too_few_samples
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import StageRecord
from unit.judge.stages import OPEN_LOOP, context, findings, open_loop_load, users
from unit.measure.records import LOAD_POINT, load_point, record, requests


def load_point_of(
    count: int, *percentiles: str, stages: int = 1, tokens: int = 2
) -> LoadPointContext:
    columns = requests(
        start_us=[2000 * i for i in range(count)],
        ttft_us=[1000] * count,
        e2el_us=[2000] * count,
        output_tokens=[tokens] * count,
    )
    return measured(
        [
            record(stage, requests=columns)
            for stage in load_point(repeats=stages).stage_ids
        ],
        *percentiles,
    )


def measured(
    records: Sequence[StageRecord],
    *percentiles: str,
    load: ExpectedStage = OPEN_LOOP,
) -> LoadPointContext:
    stages = tuple(map(context(load=load), records))
    return LoadPointContext(
        load_point(repeats=len(stages)), Thresholds(), load, percentiles, stages
    )


@pytest.mark.parametrize(
    ("open_ended", "of_load_point"),
    [
        pytest.param("99", load_point_of(540, "99"), id="p99 of fewer than 500"),
        pytest.param(None, load_point_of(570, "99"), id="p99 of 506"),
        pytest.param(
            None,
            load_point_of(290, "99", stages=2),
            id="p99 of two repeats together",
        ),
        pytest.param(None, load_point_of(40, "50"), id="a median of thirty"),
        pytest.param(
            "99.9", load_point_of(3687, "50", "99.9"), id="p99.9 takes 5,000"
        ),
        pytest.param("1", load_point_of(400, "1"), id="low ones as well"),
        pytest.param(
            "95, 99", load_point_of(100, "99", "50", "95"), id="several at once"
        ),
        pytest.param(
            None, load_point_of(400, "99", stages=0), id="nothing was measured"
        ),
    ],
)
def test_percentiles_without_a_bound(
    open_ended: str | None, of_load_point: LoadPointContext
) -> None:
    found = findings(too_few_samples(of_load_point))
    assert [(f.severity, f.evidence["percentiles"]) for f in found] == (
        [("Note", open_ended)] if open_ended else []
    )


def test_evidence_names_what_the_highest_needs() -> None:
    (found,) = findings(too_few_samples(load_point_of(100, "50", "95", "99")))
    assert (found.code, found.severity, found.stage_id) == (
        Code.TOO_FEW_SAMPLES,
        "Note",
        LOAD_POINT,
    )
    evidence = dict(found.evidence)
    steady = evidence.pop("samples")
    assert isinstance(steady, int)
    assert 80 <= steady < 100
    assert evidence == {"percentiles": "95, 99", "percentile": "99", "needed": 500}
    assert found.weight == 500 / steady


def with_objective(
    load_point: LoadPointContext,
    metric: Literal["TTFT", "TPOT", "ITL", "E2EL"],
    percentile: str,
) -> LoadPointContext:
    objective = Objective(
        metric=metric, percentile=percentile, max_milliseconds=500
    )
    return replace(load_point, objectives=(objective,))


def test_a_percentile_that_only_an_objective_names_counts() -> None:
    (found,) = findings(
        too_few_samples(with_objective(load_point_of(800, "99"), "E2EL", "99.99"))
    )
    names = ("percentiles", "percentile", "needed")
    assert [found.evidence[key] for key in names] == ["99.99", "99.99", 50_000]


@pytest.mark.parametrize(("tokens", "found"), [(2, True), (40, False)])
def test_an_objective_on_gaps_rests_on_as_many_as_there_are(
    tokens: int, found: bool
) -> None:
    """800 requests have one gap each, or 39."""
    context_with_objective = with_objective(
        load_point_of(800, "99", tokens=tokens), "ITL", "99.9"
    )
    assert bool(findings(too_few_samples(context_with_objective))) == found


def test_a_steady_part_of_fewer_than_three_rounds_tells_how_many_it_has() -> None:
    columns = requests(
        start_us=[1000 * (i // 50) for i in range(400)],
        ttft_us=[500] * 400,
        e2el_us=[1000] * 400,
        output_tokens=[2] * 400,
    )
    fewer, enough = (
        findings(
            too_few_samples(
                measured([record(requests=columns)], "50", load=users(each))
            )
        )
        for each in (100, 50)
    )
    assert [f.evidence for f in fewer] == [
        {"samples": 250, "percentiles": "50", "rounds": 2.5, "roundsNeeded": 3}
    ]
    assert enough == []


def test_a_tail_tells_how_many_rounds_it_needs() -> None:
    columns = requests(
        start_us=[1000 * (i // 50) for i in range(400)],
        ttft_us=[500] * 400,
        e2el_us=[1000 + i % 7 for i in range(400)],
        output_tokens=[2] * 400,
    )
    (found,) = findings(
        too_few_samples(
            measured([record(requests=columns)], "95", "99", load=users(50))
        )
    )
    assert found.evidence == {
        "samples": 150,
        "rounds": 3.0,
        "percentiles": "95, 99",
        "percentile": "99",
        "needed": 500,
        "roundsNeeded": 12,
    }


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_burst_of_few_repeats_says_how_many_it_takes(repeats: int) -> None:
    """Six hundred requests are enough for p99; what is missing is another burst."""
    columns = requests(
        start_us=[0] * 600,
        ttft_us=[1000] * 600,
        e2el_us=[2000 + i for i in range(600)],
        output_tokens=[2] * 600,
    )
    stages = [
        record(stage, requests=columns)
        for stage in load_point(repeats=repeats).stage_ids
    ]
    burst = open_loop_load(rate=None)
    (found,) = findings(too_few_samples(measured(stages, "99", load=burst)))
    assert found.evidence == {
        "samples": 600 * repeats,
        "percentiles": "99",
        "repeats": repeats,
        "repeatsNeeded": 3,
    }
