"""Repeats that are noisy or simulated, and runs of several load points that drift."""

from collections.abc import Sequence
from dataclasses import replace

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
from unit.judge.stages import findings, users
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


# ---- repeats
# --------------------------------------------------------------------------------------------------------


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
