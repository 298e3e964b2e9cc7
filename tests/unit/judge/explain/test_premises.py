"""Explanations and rules whose premise does not hold say nothing: a gauge that is no mean, a load of
one request, requests that move in step."""

import pytest
from benchrun.judge.explain.explanations import with_limit_told_once
from benchrun.judge.rules.rule import Code
from benchrun.judge.rules.scraping import littles_law
from benchrun_client.contract import RequestColumns, ServerEdge
from unit.judge.explain.test_explanations import crowd
from unit.judge.explain.test_waiting_and_limits import explained
from unit.judge.explained import LoadPoint, answered, judged
from unit.judge.rules.test_scraping import holding, standing
from unit.judge.stages import context, findings, unchecked, users
from unit.measure.records import edge, requests

COUNT = 640
SECONDS = 40


def with_times(first_seconds: float, all_seconds: float) -> RequestColumns:
    """Requests with these times until the first token and the last."""
    return answered(
        COUNT,
        ttft_us=[round(1e6 * first_seconds)] * COUNT,
        e2el_us=[round(1e6 * all_seconds)] * COUNT,
    )


def counted(first_seconds: float, queue_seconds: float) -> ServerEdge:
    """What the server counted of them."""
    return edge(
        rises={
            "time_to_first_token_seconds_sum": COUNT * first_seconds,
            "time_to_first_token_seconds_count": float(COUNT),
            "request_queue_time_seconds_sum": COUNT * queue_seconds,
            "request_queue_time_seconds_count": float(COUNT),
        }
    )


# ---- a gauge that was read between two batches


def test_what_runs_is_told_by_times_where_the_gauge_is_no_mean() -> None:
    """Sixteen run, each for a second; four readings of five are taken between two batches."""
    gauges = [(16 if i % 5 == 0 else 4, 296, 0.002) for i in range(SECONDS)]
    point = LoadPoint(gauges, columns=with_times(17.2, 17.7), servers=(counted(17.2, 16.7),))
    (row,) = judged(point, args=["--max-num-seqs", "16"])
    waiting, limit = explained(row)
    assert row.roles[0].running_mean == 16.0
    assert (waiting.evidence["runningWhileQueued"], limit.limit) == (16.0, "SequenceLimit")


def test_a_gauge_that_agrees_with_the_times_is_told() -> None:
    point = LoadPoint(
        [(15, 296, 0.002)] * SECONDS,
        columns=with_times(17.2, 17.7),
        servers=(counted(17.2, 16.7),),
    )
    (row,) = judged(point, args=["--max-num-seqs", "16"])
    assert row.roles[0].running_mean == 15.0


def test_readings_of_two_phases_are_no_two_loads() -> None:
    """All eight run all the time; first most readings fall between two batches, then fewer do."""
    gauges = [(2 if i < SECONDS / 2 else 6, 0, 0.002) for i in range(SECONDS)]
    point = LoadPoint(gauges, columns=with_times(0.3, 0.5), servers=(counted(0.3, 0.0),))
    (row,) = judged(point, args=[])
    assert explained(row)[1].limit == "None"


# ---- one request at a time


def test_one_request_at_a_time_meets_no_limit() -> None:
    gauges = [(1 if i % 3 == 0 or i > SECONDS / 2 else 0, 0, 0.0001) for i in range(SECONDS)]
    point = LoadPoint(gauges, columns=answered(SECONDS), value="1")
    (row,) = judged(point, args=[])
    _, limit = explained(row)
    assert (limit.limit, limit.evidence) == ("None", {"runningMax": 1.0})


# ---- Little's law


@pytest.mark.parametrize("changes", [{"offline": True}, {"whole_batches": True}])
def test_littles_law_is_not_held_against_an_engine_given_all_at_once(
    changes: dict[str, bool],
) -> None:
    (window,) = holding(*[(30, 0)] * 20)(standing(100)).windows
    profile = context(load=users(100, **changes), windows=(window,))
    (missed,) = unchecked(littles_law(profile(standing(100))))
    assert missed.code is Code.LITTLES_LAW_BROKEN


@pytest.mark.parametrize(("ttft_ms", "is_checked"), [(800, False), (100, True)])
def test_littles_law_is_not_held_against_users_in_step(ttft_ms: int, is_checked: bool) -> None:
    """Of a round of a second a gauge shows the last fifth, since the prompts take the rest."""
    record = standing(8)
    columns = requests(
        ttft_us=[1000 * ttft_ms] * len(record.requests.ok),
        e2el_us=record.requests.e2el_us,
        output_tokens=record.requests.output_tokens,
        start_us=record.requests.start_us,
    )
    (window,) = holding(*[(1.6, 0)] * 20)(record).windows
    stage = context(load=users(8), windows=(window,))(
        record.model_copy(update={"requests": columns})
    )
    found = littles_law(stage)
    assert (len(findings(found)), len(unchecked(found))) == ((1, 0) if is_checked else (0, 1))


# ---- asked once


def test_what_the_longest_request_limits_is_told_once_a_run() -> None:
    rows = with_limit_told_once([crowd(6.0), crowd(6.0)])
    asked = [sum(each.question == "MaxModelLen" for each in row.explanations) for row in rows]
    assert asked == [1, 0]
