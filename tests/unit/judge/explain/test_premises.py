"""Explanations and rules whose premise does not hold say nothing: a gauge that is no mean, a load of
one request, requests that move in step."""

import pytest
from benchrun.judge.explain.explanations import with_limit_told_once
from benchrun_client.contract import RequestColumns, ServerEdge
from unit.judge.explain.test_explanations import crowd
from unit.judge.explain.test_waiting_and_limits import explained
from unit.judge.explained import LoadPoint, answered, judged
from unit.measure.records import edge

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
    point = LoadPoint(
        gauges, columns=with_times(17.2, 17.7), servers=(counted(17.2, 16.7),)
    )
    (row,) = judged(point, args=["--max-num-seqs", "16"])
    waiting, limit = explained(row)
    assert row.roles[0].running_mean == 16.0
    assert (waiting.evidence["runningWhileQueued"], limit.limit) == (
        16.0,
        "SequenceLimit",
    )


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
    point = LoadPoint(
        gauges, columns=with_times(0.3, 0.5), servers=(counted(0.3, 0.0),)
    )
    (row,) = judged(point, args=[])
    assert explained(row)[1].limit == "None"


def test_what_no_sample_can_show_is_not_said_of_the_cache() -> None:
    """Premise of "the cache had room": a sample would have caught it full."""
    gauges = [(16 if i % 5 == 0 else 4, 296, 0.002) for i in range(SECONDS)]
    point = LoadPoint(
        gauges, columns=with_times(17.2, 17.7), servers=(counted(17.2, 16.7),)
    )
    (row,) = judged(point, args=["--max-num-seqs", "16"])
    waiting, limit = explained(row)
    assert "kvCacheMaxPercent" not in {*waiting.evidence, *limit.evidence}
    assert "KV cache" not in waiting.sentence
    assert waiting.evidence["waitingMean"] == pytest.approx(
        640 * 16.7 / 40, rel=1e-3
    )


@pytest.mark.parametrize(
    ("running", "reason"), [(16, "TokenBudget"), (4, "Unknown")]
)
def test_places_that_look_free_between_two_batches_may_be_taken(
    running: int, reason: str
) -> None:
    """Sixteen run by the times; four readings of five see a quarter of them."""
    gauges = [(running if i % 5 else 16, 296, 0.002) for i in range(SECONDS)]
    point = LoadPoint(
        gauges, columns=with_times(17.2, 17.7), servers=(counted(17.2, 16.7),)
    )
    (row,) = judged(
        point, args=["--max-num-seqs", "64", "--max-num-batched-tokens", "512"]
    )
    assert explained(row)[0].reason == reason


# ---- a queue that no sample caught


@pytest.mark.parametrize(
    ("queue_seconds", "reason"), [(0.2, "Unknown"), (0.05, "None")]
)
def test_samples_without_a_queue_do_not_outvote_the_servers_own_times(
    queue_seconds: float, reason: str
) -> None:
    """Of sixteen in flight three waited on average: between two samples."""
    servers = (counted(0.5, queue_seconds),)
    point = LoadPoint(
        [(14, 0, 0.2)] * SECONDS, columns=with_times(0.5, 1.0), servers=servers
    )
    (row,) = judged(point, args=["--max-num-seqs", "64"])
    assert explained(row)[0].reason == reason


# ---- a throughput that the arrivals set


def at_rate(
    rate: int, running: float, *, begins_at: float, seconds: int = 60
) -> LoadPoint:
    """All that came was served at once."""
    count = rate * seconds
    starts = [round(1e6 * i / rate) for i in range(count)]
    us = round(1e6 * running / rate)
    columns = answered(
        count, start_us=starts, ttft_us=[us // 4] * count, e2el_us=[us] * count
    )
    gauges = [(running, 0, 0.1)] * seconds
    return LoadPoint(
        gauges,
        columns=columns,
        axis="RequestRate",
        value=str(rate),
        servers=(),
        begins_at=begins_at,
    )


def test_a_rate_that_is_hardly_higher_shows_no_limit() -> None:
    """Premise of "flat": more was asked for. From 40 to 41 requests a second nothing else could
    come."""
    rows = judged(
        at_rate(40, 10, begins_at=0), at_rate(41, 16, begins_at=1000), args=[]
    )
    assert [explained(row)[1].limit for row in rows] == ["None", "None"]


# ---- one request at a time


def test_one_request_at_a_time_meets_no_limit() -> None:
    gauges = [
        (1 if i % 3 == 0 or i > SECONDS / 2 else 0, 0, 0.0001)
        for i in range(SECONDS)
    ]
    starts = [1_000_000 * i for i in range(SECONDS)]
    columns = answered(SECONDS, start_us=starts, e2el_us=[900_000] * SECONDS)
    (row,) = judged(LoadPoint(gauges, columns=columns, value="1"), args=[])
    _, limit = explained(row)
    assert (limit.limit, limit.evidence) == ("None", {"runningMax": 1.0})


def test_samples_that_saw_one_request_do_not_say_that_they_came_one_at_a_time() -> (
    None
):
    """Premise: the client never had two in flight. Here it had eight, in step."""
    point = LoadPoint([(1, 0, 0.0001)] * SECONDS, columns=with_times(0.3, 0.5))
    (row,) = judged(point, args=[])
    _, limit = explained(row)
    assert limit.limit == "None"
    assert "runningMax" not in limit.evidence


# ---- asked once


def test_what_the_longest_request_limits_is_told_once_a_run() -> None:
    rows = with_limit_told_once([crowd(6.0), crowd(6.0)])
    asked = [
        sum(each.question == "MaxModelLen" for each in row.explanations)
        for row in rows
    ]
    assert asked == [1, 0]
