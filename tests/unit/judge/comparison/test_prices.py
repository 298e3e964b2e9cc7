"""What would decide a change or a gate: how many servers or repeats, and what they take."""

import math
from statistics import NormalDist
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, Change, ComparedMetric, Price
from benchrun.judge.comparison.figures import NO_CV, NoisyFigure
from benchrun.judge.comparison.gate import undecided_values
from benchrun.judge.comparison.hypotheses import Hypothesis
from benchrun.judge.comparison.prices import (
    MAX_VALUES,
    Values,
    price_of,
    values_of_change,
)
from benchrun.measure import POWER, Contrast, student_quantile
from unit.judge.comparison.sides import compared, repeated, row, run
from unit.plan.specs import endpoint_body

MARGIN = math.log1p(0.01)
TIMES = {
    "scheduled_time": "2026-01-01T00:00:00Z",
    "start_time": "2026-01-01T00:05:00Z",
    "server_released_time": "2026-01-01T00:15:00Z",
}


def hypothesis(
    percent: float,
    *,
    cv: float = 1.5,
    values: int = 5,
    metric: ComparedMetric = "MeanTTFT",
) -> Hypothesis:
    """A change of so much, with this coefficient of variation of the values of each side."""
    squared = math.log1p((cv / 100) ** 2) / values
    before = Contrast(0.0, squared, values - 1)
    after = Contrast(math.log1p(percent / 100), squared, values - 1)
    return Hypothesis(
        metric,
        NoisyFigure(1.0, before),
        NoisyFigure(math.exp(after.estimate), after),
    )


def change(word: str = "NoDetectableDifference") -> Change:
    return Change.model_validate({"metric": "MeanTTFT", "word": word})


def values(of: Hypothesis, *, error: float = 0.05) -> int | None:
    return values_of_change(of, change(), error=error, margin=MARGIN)


# Changes.


def test_it_is_the_fewest_that_detect_the_change_in_four_of_five() -> None:
    found = values(hypothesis(2.0))
    assert found is not None

    def reach(count: int) -> float:
        squared = 2 * math.log1p(0.015**2) / count
        student = student_quantile(0.95, 2 * (count - 1))
        return (student + NormalDist().inv_cdf(POWER)) * math.sqrt(squared)

    assert reach(found) <= math.log1p(0.02) < reach(found - 1)


def test_the_smaller_the_change_the_more_it_takes_until_it_is_equivalent() -> None:
    found = [values(hypothesis(percent)) or 0 for percent in (4.0, 2.0, 1.0, 0.05)]
    assert found[0] < found[1] < found[2]
    # Not that it changed, but that it changed by less than matters.
    assert found[3] < (values(hypothesis(0.5)) or 0)


def test_more_figures_take_more() -> None:
    assert (values(hypothesis(2.0), error=0.05 / 30) or 0) > (
        values(hypothesis(2.0)) or 0
    )


@pytest.mark.parametrize("word", ["Better", "Worse", "Equivalent", "NotComparable"])
def test_what_is_decided_or_not_comparable_has_no_price(word: str) -> None:
    found = values_of_change(
        hypothesis(2.0), change(word), error=0.05, margin=MARGIN
    )
    assert found is None


def test_nobody_is_told_thousands() -> None:
    # Half of the least change that matters is neither shown as a change nor as none.
    assert values(hypothesis(0.5, cv=30)) is None
    assert (values(hypothesis(0.5, cv=5)) or 0) < MAX_VALUES


@pytest.mark.parametrize(
    ("metric", "least"),
    [("MeanTTFT", 3), ("P99TTFT", 5), ("TimeToReady", 2)],
)
def test_without_noise_it_is_the_least_that_shows_it(
    metric: ComparedMetric, least: int
) -> None:
    unknown = Hypothesis(metric, NoisyFigure(1.0), NoisyFigure(1.1))
    found = values_of_change(unknown, change("Unknown"), error=0.05, margin=MARGIN)
    assert found == least


def test_what_more_repeats_would_not_show_has_no_price() -> None:
    unknown = Hypothesis(
        "MeanTTFT", NoisyFigure(1.0, problem=NO_CV), NoisyFigure(1.1)
    )
    assert (
        values_of_change(unknown, change("Unknown"), error=0.05, margin=MARGIN)
        is None
    )


# Gates.


def gate_values(*of: Hypothesis, is_assumed: bool = False) -> int | None:
    return undecided_values(
        [("chat/rate=4", list(of))],
        max_regression_percent=5.0,
        is_assumed=is_assumed,
    )


def test_a_gate_takes_as_much_as_its_nearest_figure() -> None:
    near = gate_values(hypothesis(4.0))
    assert near is not None
    assert gate_values(hypothesis(4.0), hypothesis(0.0)) == near
    assert near > (gate_values(hypothesis(0.0)) or 0)


def test_a_figure_that_is_beyond_decides_alone() -> None:
    beyond = gate_values(hypothesis(9.0))
    assert beyond is not None
    assert (gate_values(hypothesis(9.0), hypothesis(4.9)) or 0) <= beyond + 1


def test_a_loss_of_throughput_is_turned() -> None:
    lost = gate_values(hypothesis(-9.0, metric="OutputThroughput"))
    gained = gate_values(hypothesis(9.0, metric="OutputThroughput"))
    assert lost is not None
    assert gained is not None
    assert gained <= lost


def test_of_one_server_a_side_a_usual_noise_is_assumed() -> None:
    alone = Hypothesis("MeanTTFT", NoisyFigure(100.0), NoisyFigure(104.0))
    assert gate_values(alone) == 3  # Repeats, which would show the noise.
    assert gate_values(alone, is_assumed=True) == gate_values(hypothesis(4.0))
    percentile = Hypothesis("P99TTFT", NoisyFigure(100.0), NoisyFigure(90.0))
    assert gate_values(percentile, is_assumed=True) == 5


def test_a_missing_figure_has_no_price() -> None:
    missing = Hypothesis("MeanTTFT", NoisyFigure(None), NoisyFigure(1.0))
    assert gate_values(missing) is None
    assert undecided_values([("a", None)], max_regression_percent=5.0) is None


# What it takes.


def timed(name: str, *, gpus: int = 2, **facts: Any) -> Any:
    return run(
        name,
        [row(repeats=5, cv=1.0)],
        server={"gpus": gpus},
        status=TIMES | facts,
    )


def test_fresh_servers_take_their_start_too_and_repeats_do_not() -> None:
    before = [timed("a")]
    after = [timed("b", gpus=4)]
    servers_price = price_of(Values(6, "servers"), before, after)
    # Of each side six times 15 minutes, with two and with four GPUs.
    assert servers_price == Price(servers=6, minutes=180, gpu_seconds=6 * 900 * 6)
    # Runs at an endpoint, of which nothing is released.
    ended = {
        "server_released_time": None,
        "completion_time": "2026-01-01T00:16:00Z",
    }
    at_endpoint = [timed("a", gpus=0, **ended)]
    assert price_of(Values(6, "runs"), at_endpoint, at_endpoint) == Price(
        runs=6, minutes=6 * 2 * 11
    )
    # Five repeats took ten minutes.
    repeats_price = price_of(Values(6, "repeats"), before, after)
    assert repeats_price == Price(repeats=6, minutes=24, gpu_seconds=6 * 120 * 6)


@pytest.mark.parametrize(
    ("facts", "gpus", "price"),
    [
        pytest.param(
            {"server_released_time": None}, 2, Price(servers=6), id="times unknown"
        ),
        pytest.param({}, 0, Price(servers=6, minutes=180), id="no GPU"),
    ],
)
def test_what_is_not_known_is_absent(
    facts: dict[str, Any], gpus: int, price: Price
) -> None:
    side = [timed("a", gpus=gpus, **facts)]
    assert price_of(Values(6, "servers"), side, side) == price


def test_a_comparison_tells_what_would_decide_its_changes_and_its_gate() -> None:
    found = compared(
        [run(f"a{n}", MeanTTFT=v) for n, v in enumerate((100, 103, 97, 101, 99))],
        [run(f"b{n}", MeanTTFT=v) for n, v in enumerate((102, 105, 98, 103, 101))],
        "MeanTTFT",
        limit=3,
    )
    (load_point,) = found.load_points
    (told,) = load_point.changes
    assert told.word == "NoDetectableDifference"
    assert told.price is not None
    assert (told.price.servers or 0) > 5
    assert told.price.repeats is None
    assert found.gate in ("Underpowered", "Inconclusive")
    assert found.gate_price is not None
    assert (found.gate_price.servers or 0) > 5
    assert found.gate_price.in_words in found.answer


def test_with_one_server_a_side_repeats_decide_a_change_and_servers_the_gate() -> (
    None
):
    sides = repeated("a", cv=3.0), repeated("b", cv=3.0, MeanTTFT=43.8)
    found = compared(*sides, "MeanTTFT", limit=3)
    (told,) = found.load_points[0].changes
    assert told.price is not None
    assert (told.price.repeats or 0) > 5
    assert found.gate_price is not None
    assert found.gate_price.servers is not None
    enough = compared(*sides, "MeanTTFT", limit=3, one_is_enough=True)
    assert enough.gate_price is not None
    assert enough.gate_price.repeats is not None


ENDPOINT = BenchmarkRunSpec.model_validate(
    endpoint_body({"url": "http://llm.example"})
)


@pytest.mark.parametrize(
    ("runs", "metric", "unit"),
    [
        pytest.param(
            1, "P99TTFT", "runs", id="a percentile needs more than repeats"
        ),
        pytest.param(5, "MeanTTFT", "runs", id="several runs a side"),
        pytest.param(1, "MeanTTFT", "repeats", id="one run a side"),
    ],
)
def test_an_endpoint_is_never_a_fresh_server(
    runs: int, metric: ComparedMetric, unit: str
) -> None:
    """It is one and the same server, which nobody starts anew, however often it is measured."""

    def side(prefix: str, more: float) -> list[Any]:
        return [
            run(
                f"{prefix}{n}",
                [
                    row(
                        repeats=5,
                        cv=3.0,
                        MeanTTFT=43.0 + more + n,
                        P99TTFT=90.0 + more + n,
                    )
                ],
                run_spec=ENDPOINT,
                server={"gpus": 0},
            )
            for n in range(runs)
        ]

    for is_enough in (False, True):
        found = compared(
            side("a", 0.0),
            side("b", 0.7),
            metric,
            limit=3,
            one_is_enough=is_enough,
        )
        (told,) = found.load_points[0].changes
        prices = [told.price, found.gate_price]
        assert {each.servers for each in prices if each is not None} == {None}
        assert told.price is not None
        assert getattr(told.price, unit) is not None
        assert "fresh" not in found.message


def test_a_gate_that_is_decided_has_no_price() -> None:
    same = repeated("a", cv=0.1), repeated("b", cv=0.1)
    assert compared(*same, limit=5, one_is_enough=True).gate_price is None
