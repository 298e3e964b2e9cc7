"""Repeats of one load point: agreeing, disagreeing, and too noisy to tell; and runs that drift."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from benchrun.judge.rules.rule import (
    Code,
    LoadPointContext,
    RunContext,
    StageFacts,
    StageFinding,
)
from benchrun.judge.rules.sample_size import repeats_disagree
from benchrun.judge.rules.steady_state import drift
from benchrun.judge.thresholds import Thresholds
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import context, findings, open_loop_load, unchecked, users
from unit.measure.records import LOAD_POINT, load_point, record, requests

LINES = Thresholds()


def load_point_of(
    stages: Sequence[StageFacts], *, value: str = "4", planned: int | None = None
) -> LoadPointContext:
    """A load point whose repeats were measured in this order, ten stages apart."""
    planned_load_point = load_point(value=value, repeats=planned or len(stages))
    placed = tuple(
        replace(
            stage,
            record=stage.record.model_copy(
                update={"sequence": 10 * i, "stage_id": stage_id}
            ),
        )
        for i, (stage, stage_id) in enumerate(
            zip(stages, planned_load_point.stage_ids, strict=False)
        )
    )
    return LoadPointContext(planned_load_point, LINES, users(4), ("99",), placed)


def repeated(
    factors: Sequence[float],
    *,
    count: int = 200,
    value: str = "4",
    variation: float = 0.1,
) -> LoadPointContext:
    """Four users, at a server slower by a factor in each repeat."""

    def server(factor: float) -> Server:
        return Server(
            slower=lambda second, number: factor,
            variation=variation,
            hiccup_chance=0.0,
        )

    seed = 100 * int(value)
    return load_point_of(
        [
            closed_loop(server(f), concurrency=4, count=count, seed=seed + i)
            for i, f in enumerate(factors)
        ],
        value=value,
    )


def exact(factor: float) -> StageFacts:
    """Every latency is its usual value times a factor, and 1 % more or less by turns."""
    around = [factor * (0.99 if i % 2 else 1.01) for i in range(100)]
    columns = requests(
        ttft_us=[round(10_000 * f) for f in around],
        e2el_us=[round(100_000 * f) for f in around],
        output_tokens=[10] * 100,
    )
    return context(load=users(4))(record(requests=columns))


# ---- repeats
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_one_repeat_that_differs_is_found(slow: int) -> None:
    (found,) = findings(
        repeats_disagree(repeated([1.3 if i == slow else 1.0 for i in range(3)]))
    )
    assert (found.code, found.severity, found.stage_id) == (
        Code.REPEATS_DISAGREE,
        "Suspect",
        LOAD_POINT,
    )


@pytest.mark.parametrize(
    ("found", "factor"),
    [
        pytest.param(False, 1.0, id="equal"),
        pytest.param(False, 1.15, id="a CV of 9.9 %"),
        pytest.param(True, 1.155, id="a CV of 10.2 %"),
    ],
)
def test_coefficient_of_variation(found: bool, factor: float) -> None:
    """Of two values, the deviation by the sample formula is their difference over the root of
    two."""
    assert (
        len(findings(repeats_disagree(load_point_of([exact(1.0), exact(factor)]))))
        == found
    )


def test_what_noise_explains_is_no_disagreement() -> None:
    """Means apart by a third, of twenty latencies each that differ a hundredfold."""
    one = [10_000 * (1 + i * 37 % 100) for i in range(20)]
    two = [10_000 * (1 + i * 53 % 100) * 4 // 3 for i in range(20)]
    pair = [
        replace(
            closed_loop(Server(), concurrency=1, count=1, seed=1),
            record=record(
                requests=requests(
                    ttft_us=e2el, e2el_us=e2el, output_tokens=[1] * 20
                )
            ),
        )
        for e2el in (one, two)
    ]
    assert repeats_disagree(load_point_of(pair)) == []


def test_evidence_of_disagreement() -> None:
    (found,) = findings(
        repeats_disagree(load_point_of([exact(1.0), exact(2.0), exact(1.0)]))
    )
    evidence = dict(found.evidence)
    assert evidence.pop("chance") < 1e-9  # type: ignore[operator]
    # 1, 2 and 1 have a mean of 4/3 and a deviation of 0.57735.
    assert evidence == {
        "figure": "meanE2elMs",
        "cvPercent": 43.301,
        "suspectPercent": 10.0,
        "repeats": 3,
        "least": 100.0,
        "most": 200.0,
        "suspectChance": 0.0002,
        "figures": "meanTtftMs, meanTpotMs, meanE2elMs",
    }
    assert found.weight == pytest.approx(43.301, abs=1e-3)


def test_throughput_is_compared_as_well() -> None:
    """Sent all at once, latencies are places in the queue; only throughput has no such course
    within a repeat."""

    def drained(seconds: float) -> StageFacts:
        ends = [round(1e6 * seconds * (i + 1) / 400) for i in range(400)]
        columns = requests(
            ttft_us=ends,
            e2el_us=ends,
            output_tokens=[10 + i % 2 for i in range(400)],
            start_us=[0] * 400,
        )
        return context(load=open_loop_load(rate=None))(
            record(requests=columns, scalars={"duration": seconds})
        )

    (found,) = findings(
        repeats_disagree(load_point_of([drained(10.0), drained(13.0)]))
    )
    assert found.evidence["figures"] == "outputTokensPerSecond"
    assert found.evidence["least"] == pytest.approx(323, abs=3)
    assert found.evidence["most"] == pytest.approx(420, abs=3)


def test_a_single_repeat_has_nothing_to_disagree_with() -> None:
    assert repeats_disagree(repeated([1.0])) == []


def test_a_repeat_that_was_not_measured_leaves_nothing_to_compare() -> None:
    (missed,) = unchecked(
        repeats_disagree(
            load_point_of(
                [closed_loop(Server(), concurrency=4, count=40, seed=1)], planned=2
            )
        )
    )
    assert missed.code is Code.REPEATS_DISAGREE


def test_no_records_have_no_finding() -> None:
    assert repeats_disagree(load_point_of([], planned=2)) == []


def test_queues_near_capacity_differ_by_themselves() -> None:
    server = Server(slots=4, prefill_seconds=0.01)
    for seed in range(0, 200, 10):
        repeats = [
            open_loop(server, rate=0.85 * server.capacity, count=200, seed=seed + i)
            for i in range(3)
        ]
        assert repeats_disagree(load_point_of(repeats)) == []


# ---- drift
# ----------------------------------------------------------------------------------------------------------


def run(*load_points: LoadPointContext) -> RunContext:
    return RunContext(
        LINES, {each.load_point.id: each.summary() for each in load_points}
    )


def drifting(found: Sequence[StageFinding]) -> list[str]:
    assert {f.code for f in found} <= {Code.DRIFT}
    return [f.stage_id for f in found]


@pytest.mark.parametrize(
    ("found", "factors"),
    [
        pytest.param(True, [1.0, 1.1, 1.2, 1.3], id="slower each time"),
        pytest.param(True, [1.3, 1.2, 1.1, 1.0], id="faster each time"),
        pytest.param(False, [1.0, 1.0, 1.0, 1.0], id="level"),
        pytest.param(False, [1.0, 1.3, 1.1, 1.2], id="up and down"),
        pytest.param(False, [1.0, 1.02, 1.04, 1.06], id="6 %"),
        pytest.param(
            False,
            [1.0, 1.15, 1.3],
            id="three in order: once in three runs by chance",
        ),
    ],
)
def test_a_single_load_point(found: bool, factors: list[float]) -> None:
    assert (
        drifting(findings(drift(run(repeated(factors, variation=0.02)))))
        == [LOAD_POINT] * found
    )


def test_several_load_points_need_fewer_repeats() -> None:
    slower = [1.0, 1.15, 1.3]
    load_points = [repeated(slower, value=value) for value in ("1", "2", "4")]
    assert drifting(findings(drift(run(*load_points)))) == [
        each.load_point.id for each in load_points
    ]


def test_load_points_that_move_against_each_other_do_not_drift() -> None:
    one = repeated([1.0, 1.15, 1.3], value="1")
    other = repeated([1.3, 1.15, 1.0], value="2")
    assert findings(drift(run(one, other))) == []


def test_a_load_point_that_stays_is_not_named() -> None:
    slower = [1.0, 1.1, 1.2, 1.3, 1.4]
    moving = [repeated(slower, value=value) for value in ("1", "2")]
    staying = repeated([1.0] * 5)
    assert drifting(findings(drift(run(*moving, staying)))) == [
        each.load_point.id for each in moving
    ]


def test_the_order_of_measurement_counts_not_that_of_the_repeats() -> None:
    up_and_down = repeated([1.0, 1.3, 1.1, 1.2], variation=0.02)
    as_measured = tuple(
        replace(stage, record=stage.record.model_copy(update={"sequence": place}))
        for stage, place in zip(up_and_down.stages, (0, 3, 1, 2), strict=True)
    )
    reordered = LoadPointContext(
        up_and_down.load_point, LINES, users(4), ("99",), as_measured
    )
    assert drifting(findings(drift(run(reordered)))) == [LOAD_POINT]


def test_a_change_within_the_noise_is_no_drift() -> None:
    assert (
        findings(
            drift(run(repeated([1.0, 1.05, 1.1, 1.15], count=24, variation=0.4)))
        )
        == []
    )


def test_evidence_of_a_drift() -> None:
    (found,) = findings(
        drift(
            run(load_point_of([exact(factor) for factor in (1.0, 1.2, 1.4, 1.6)]))
        )
    )
    evidence = dict(found.evidence)
    assert evidence.pop("chanceOfSpread") < 1e-9  # type: ignore[operator]
    # Two of the 24 orders of four are ordered throughout.
    assert evidence == {
        "figure": "meanTtftMs",
        "first": 10.0,
        "last": 16.0,
        "changePercent": 60.0,
        "suspectPercent": 10.0,
        "repeats": 4,
        "loadPointsCompared": 1,
        "chanceOfOrder": 0.083333,
        "suspectChanceOfOrder": 0.1,
        "suspectChanceOfSpread": 0.0002,
    }
    assert (found.severity, found.stage_id) == ("Suspect", LOAD_POINT)


def test_a_run_without_repeats_cannot_drift() -> None:
    assert findings(drift(run(repeated([1.0])))) == []
    assert findings(drift(run())) == []
