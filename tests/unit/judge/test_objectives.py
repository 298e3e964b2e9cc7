"""Objectives: met or missed with certainty, or not at all."""

from collections.abc import Iterable

import pytest
from benchrun.api import Objective, ObjectiveResult, Verdict, Width
from benchrun.judge.objectives import (
    objective_results,
    request_limits,
    unreached,
    width_results,
)
from benchrun.measure import QUEUED_TTFT, RequestLimits, latency_samples
from benchrun_client.contract import ERROR, RequestSample, StageRecord, stage_shape
from hypothesis import given, strategies as st
from unit.measure.records import record, requests


def objective(
    metric: str = "TTFT", *, percentile: str = "99", at_most_ms: int = 25
) -> Objective:
    return Objective.model_validate(
        {"metric": metric, "percentile": percentile, "maxMilliseconds": at_most_ms}
    )


def outcome(
    values_us: Iterable[float],
    *,
    percentile: str = "99",
    verdict: Verdict = "Valid",
) -> ObjectiveResult:
    """Of a limit of 25 ms."""
    (found,) = objective_results(
        [objective(percentile=percentile)], {"ttft": sample(values_us)}, verdict
    )
    return found


def sample(values_us: Iterable[float]) -> RequestSample:
    """Of one user, who sends one request after the other."""
    values = list(values_us)
    return RequestSample(
        [stage_shape(range(len(values)), range(len(values)), users=1)], [values]
    )


def of_100_ms(slow: int, count: int) -> list[float]:
    """So many of 100 ms among others of 10 ms, evenly."""
    values = [10_000.0] * count
    for place in range(slow):
        values[place * count // slow] = 100_000.0
    return values


@pytest.mark.parametrize(
    ("word", "values", "percentile"),
    [
        pytest.param(
            "Met", of_100_ms(0, 368), "99", id="enough requests, none above"
        ),
        pytest.param(
            "Met", of_100_ms(0, 50), "99", id="fifty requests far below the limit"
        ),
        pytest.param(
            "Inconclusive",
            [20_000.0] * 400,
            "99",
            id="near the limit in one stretch",
        ),
        pytest.param(
            "Inconclusive",
            of_100_ms(3, 368),
            "99",
            id="the limit lies within the interval",
        ),
        pytest.param(
            "Met",
            of_100_ms(3, 1000),
            "99",
            id="the upper end is the fourth from above",
        ),
        pytest.param(
            "Inconclusive",
            of_100_ms(4, 1000),
            "99",
            id="and one more is above the limit",
        ),
        pytest.param(
            "Missed", of_100_ms(18, 1000), "99", id="the lower end is above"
        ),
        pytest.param(
            "Inconclusive",
            of_100_ms(4, 100),
            "99",
            id="four of a hundred are above",
        ),
        pytest.param(
            "Missed",
            of_100_ms(10, 100),
            "99",
            id="ten of a hundred cannot be chance",
        ),
        pytest.param(
            "Inconclusive",
            [1.0, 25_001.0],
            "99",
            id="certain, but the interpolated figure is below",
        ),
        pytest.param(
            "Inconclusive", of_100_ms(0, 2), "50", id="two requests bound no median"
        ),
        pytest.param("Met", [16_000.0] * 100, "50", id="two thirds of the limit"),
        pytest.param("Missed", [38_000.0] * 100, "50", id="half above the limit"),
        pytest.param("Inconclusive", [], "99", id="nothing measured"),
    ],
)
def test_an_objective(word: str, values: list[float], percentile: str) -> None:
    assert outcome(values, percentile=percentile).outcome == word


@pytest.mark.parametrize("verdict", ["Invalid", "Unknown"])
@pytest.mark.parametrize("slow", [0, 1000])
def test_numbers_that_mean_nothing_prove_nothing(
    verdict: Verdict, slow: int
) -> None:
    assert outcome(of_100_ms(slow, 1000), verdict=verdict).outcome == "Inconclusive"


def test_suspect_numbers_are_judged() -> None:
    assert outcome(of_100_ms(0, 1000), verdict="Suspect").outcome == "Met"


def test_a_result_names_what_was_requested_and_what_was_measured() -> None:
    assert outcome(of_100_ms(10, 100)) == ObjectiveResult(
        metric="TTFT",
        percentile="99",
        max_milliseconds=25,
        measured_milliseconds=100.0,
        outcome="Missed",
    )


@given(
    st.lists(st.integers(1, 50_000), max_size=500),
    st.sampled_from(["50", "90", "99"]),
)
def test_met_and_missed_agree_with_what_was_measured(
    values: list[int], percentile: str
) -> None:
    found = outcome(values, percentile=percentile)
    if found.outcome == "Met":
        assert (found.measured_milliseconds or 0) <= 25
    if found.outcome == "Missed":
        assert (found.measured_milliseconds or 0) > 25 * 0.9999


@pytest.mark.parametrize(
    ("metric", "measured"),
    [("TTFT", 25.0), ("TPOT", 10.0), ("ITL", 10.0), ("E2EL", 125.0)],
)
def test_each_latency_has_its_own(metric: str, measured: float) -> None:
    (found,) = objective_results(
        [objective(metric, percentile="50")],
        latency_samples([record()], users=1),
        "Valid",
    )
    assert (found.metric, found.measured_milliseconds) == (metric, measured)


def test_a_latency_that_is_not_shown_is_not_judged() -> None:
    (found,) = objective_results(
        [objective("ITL")], {"ttft": sample([1.0])}, "Valid"
    )
    assert (found.measured_milliseconds, found.outcome) == (None, "Inconclusive")


def test_the_wait_in_the_clients_queue_counts() -> None:
    samples = {
        "ttft": sample(of_100_ms(0, 368)),
        QUEUED_TTFT: sample(of_100_ms(368, 368)),
    }
    (found,) = objective_results([objective()], samples, "Valid")
    assert (found.measured_milliseconds, found.outcome) == (100.0, "Missed")


def test_limits_of_a_single_request() -> None:
    objectives = [
        objective(at_most_ms=500),
        objective(percentile="50", at_most_ms=100),
        objective("E2EL", at_most_ms=9),
    ]
    assert request_limits(objectives) == RequestLimits(ttft_ms=100, e2el_ms=9)
    assert request_limits([objective("ITL", at_most_ms=1)]) == RequestLimits()


def test_one_token_answers_have_no_tpot_to_judge() -> None:
    one_token = record(requests=requests(output_tokens=(1, 1)))
    (found,) = objective_results(
        [objective("TPOT")], latency_samples([one_token], users=1), "Valid"
    )
    assert (found.measured_milliseconds, found.outcome) == (None, "Inconclusive")


def answers(failed: int, count: int) -> ObjectiveResult:
    """p99 of so many requests, all of 10 ms but the failed ones."""
    ok = [1] * count
    for place in range(failed):
        ok[place * count // failed] = 0
    columns = requests(
        ttft_us=[10_000] * count,
        e2el_us=[12_000] * count,
        output_tokens=[2] * count,
        ok=ok,
    )
    (found,) = objective_results(
        [objective()], latency_samples([record(requests=columns)], users=1), "Valid"
    )
    return found


@pytest.mark.parametrize(
    ("failed", "word", "measured"),
    [
        pytest.param(0, "Met", 10.0, id="none"),
        pytest.param(3, "Met", 10.0, id="certainly fewer than one percent"),
        pytest.param(9, "Inconclusive", 10.0, id="nearly one percent"),
        pytest.param(
            10,
            "Inconclusive",
            None,
            id="one percent: p99 is a failed request, which may be chance",
        ),
        pytest.param(25, "Missed", None, id="so many that it is none"),
        pytest.param(900, "Missed", None, id="most"),
        pytest.param(1000, "Missed", None, id="all"),
    ],
)
def test_a_failed_request_is_a_missed_objective(
    failed: int, word: str, measured: float | None
) -> None:
    found = answers(failed, 1000)
    assert (found.outcome, found.measured_milliseconds) == (word, measured)


def test_failed_requests_have_gaps_without_end() -> None:
    columns = requests(
        ttft_us=[10_000] * 1000,
        e2el_us=[12_000] * 1000,
        output_tokens=[11] * 1000,
        ok=[0] * 50 + [1] * 950,
    )
    (found,) = objective_results(
        [objective("ITL")],
        latency_samples([record(requests=columns)], users=1),
        "Valid",
    )
    assert (found.outcome, found.measured_milliseconds) == ("Missed", None)


def thinks(answer_us: int) -> StageRecord:
    """Return a stage of two answers with reasoning, the second of which begins then."""
    columns = requests(reasoning_us=(20_000, 30_000), answer_us=(50_000, answer_us))
    return record(requests=columns)


@pytest.mark.parametrize(
    ("metric", "measured"), [("TTFRT", 25.0), ("TTFAT", 60.0), ("TTFT", 25.0)]
)
def test_reasoning_and_answers_have_latencies_of_their_own(
    metric: str, measured: float
) -> None:
    (found,) = objective_results(
        [objective(metric, percentile="50")],
        latency_samples([thinks(70_000)], users=1),
        "Valid",
    )
    assert (found.metric, found.measured_milliseconds) == (metric, measured)


def test_an_answer_that_never_began_has_no_latency_below_a_limit() -> None:
    (found,) = objective_results(
        [objective("TTFAT", percentile="99")],
        latency_samples([thinks(0)], users=1),
        "Valid",
    )
    assert found.measured_milliseconds is None


def test_without_reasoning_an_objective_on_it_is_not_judged() -> None:
    (found,) = objective_results(
        [objective("TTFAT")], latency_samples([record()], users=1), "Valid"
    )
    assert (found.measured_milliseconds, found.outcome) == (None, "Inconclusive")


def test_limits_of_a_single_request_on_reasoning() -> None:
    found = request_limits(
        [objective("TTFRT", at_most_ms=5), objective("TTFAT", at_most_ms=9)]
    )
    assert found == RequestLimits(ttfrt_ms=5, ttfat_ms=9)


def test_around_a_percentile_of_0_an_interval_has_no_width() -> None:
    """An answer that comes in one chunk has a TPOT of 0."""
    count = 100
    shape = stage_shape(range(count), range(count), users=1)
    three = RequestSample([shape] * 3, [[0.0] * count] * 3)
    asked = Width(metric="TPOT", percentile="50", percent="5")
    (found,) = width_results([asked], {"tpot": three}, "Valid", error=ERROR)
    assert (found.measured_percent, found.reached) == (0, True)
    assert not unreached([found])[0].reached
