"""Why requests waited and what limits, from records and readings to the sentences of a row."""

import re

import pytest
from benchrun.api import Bottleneck, Result, ServerStatus, Waiting
from benchrun.judge.explain.load_point_explanations import seen_at
from benchrun.judge.rules.rule import LoadPointContext
from benchrun.judge.thresholds import Thresholds
from unit.golden_messages import golden
from unit.judge.explained import LoadPoint, answered, judged
from unit.judge.stages import context, users
from unit.measure.records import client, edge, load_point, record

TWO_PLACES = ["--max-num-seqs", "2"]


def words(row: Result) -> tuple[str, str]:
    """The reason and the limit, each with a sentence in order."""
    assert row.waiting is not None
    assert row.bottleneck is not None
    for explanation in (row.waiting, row.bottleneck):
        assert len(explanation.sentence) < 400
        assert re.search(r"\d", explanation.sentence) or explanation.evidence == {
            "samples": 0
        }, "without a sample there is no number"
        assert explanation.sentence.endswith(".")
        assert "?" not in explanation.sentence
        assert explanation.evidence
    return row.waiting.reason, row.bottleneck.limit


def explained(row: Result) -> tuple[Waiting, Bottleneck]:
    words(row)
    assert row.waiting is not None
    assert row.bottleneck is not None
    return row.waiting, row.bottleneck


def eight_users_in_two_places() -> LoadPoint:
    return LoadPoint([(2, 6, 0.031)] * 40, columns=answered(80))


def test_two_places_for_eight_users() -> None:
    (row,) = judged(eight_users_in_two_places(), args=TWO_PLACES)
    assert words(row) == ("SequenceLimit", "SequenceLimit")
    waiting, limit = explained(row)
    assert waiting.evidence["sequenceLimit"] == 2
    golden(waiting.sentence, limit.sentence)


def test_how_long_requests_waited_is_the_servers_own_count() -> None:
    """It misses no moment between two readings."""
    point = eight_users_in_two_places()
    waited = {
        "request_queue_time_seconds_sum": 240.0,
        "request_queue_time_seconds_count": 80.0,
    }
    point.record = point.record.model_copy(
        update={"servers": (edge(rises=waited),)}
    )
    (row,) = judged(point, args=TWO_PLACES)
    waiting, _ = explained(row)
    assert waiting.evidence["meanQueueTimeMs"] == 3000.0
    golden(waiting.sentence)


def test_a_server_that_does_not_count_its_queue_is_not_quoted() -> None:
    (row,) = judged(eight_users_in_two_places(), args=TWO_PLACES)
    assert "meanQueueTimeMs" not in explained(row)[0].evidence


def test_what_an_endpoint_reports_of_itself_counts() -> None:
    server = ServerStatus(
        engine="VLLM", role="server", reported={"max_num_seqs": "2"}
    )
    (row,) = judged(eight_users_in_two_places(), servers=[server])
    assert words(row) == ("SequenceLimit", "SequenceLimit")
    assert "the server's max-num-seqs" in explained(row)[0].sentence


def test_an_unstated_limit_shows_in_the_samples() -> None:
    (row,) = judged(eight_users_in_two_places())
    assert words(row) == ("SequenceLimit", "SequenceLimit")
    golden(explained(row)[0].sentence)


def spread(count: int) -> list[int]:
    """Instants at which so many requests are sent, evenly over forty seconds."""
    return [40_000_000 * i // count for i in range(count)]


def test_a_server_that_keeps_up() -> None:
    (row,) = judged(
        LoadPoint([(7.5, 0, 0.2)] * 40, columns=answered(80, start_us=spread(80)))
    )
    assert words(row) == ("None", "None")
    golden(explained(row)[1].sentence)


def test_a_queue_of_a_moment_is_none() -> None:
    (row,) = judged(
        LoadPoint([(2, 6, 0.1)] + [(8, 0, 0.2)] * 39, columns=answered(80))
    )
    assert words(row) == ("None", "None")
    golden(explained(row)[0].sentence)


def test_without_samples_there_is_no_explanation() -> None:
    (row,) = judged(LoadPoint([], columns=answered(80), scalars={"duration": 10.0}))
    assert words(row) == ("Unknown", "Unknown")


def test_no_sample_and_no_queue_by_the_servers_own_count() -> None:
    point = LoadPoint([], columns=answered(80), scalars={"duration": 10.0})
    waited = {
        "request_queue_time_seconds_sum": 0.004,
        "request_queue_time_seconds_count": 80.0,
    }
    point.record = point.record.model_copy(
        update={"servers": (edge(rises=waited),)}
    )
    (row,) = judged(point, args=TWO_PLACES)
    waiting, _ = explained(row)
    assert waiting.reason == "None"
    assert "0.05 ms" in waiting.sentence


def test_a_queue_without_word_of_the_cache() -> None:
    (row,) = judged(
        LoadPoint([(20 + i % 3, 9, None) for i in range(40)], columns=answered(80))
    )
    assert words(row) == ("Unknown", "Unknown")


# ---- KV cache
# -------------------------------------------------------------------------------------------------------

FILLING = (
    [(4.0, 4.0, 0.2)] * 16 + [(8.0, 3.0, 0.5)] * 15 + [(16.0, 40.0, 0.99)] * 40
)
"""More and more run, until the cache is full."""


def test_throughput_that_grows_until_the_cache_is_full() -> None:
    point = LoadPoint(
        FILLING,
        columns=answered(400, prompt=1000, output=100),
        prompt_rate=[250 * r for r, _, _ in FILLING],
        generation_rate=[25 * r for r, _, _ in FILLING],
    )
    (row,) = judged(point, args=[])
    assert words(row) == ("KVCacheFull", "KVMemory")
    assert "99 %" in explained(row)[0].sentence
    assert re.search(
        r"Throughput grows by \d+ % as running goes from \S+ to 16",
        explained(row)[1].sentence,
    )


def test_throughput_that_stays_flat_while_the_cache_fills() -> None:
    (row,) = judged(
        LoadPoint(FILLING, columns=answered(400, prompt=1000, output=100)), args=[]
    )
    assert words(row) == ("KVCacheFull", "Compute")
    golden(explained(row)[1].sentence)


def test_a_full_cache_of_which_nothing_else_is_known() -> None:
    (row,) = judged(
        LoadPoint(
            [(40 + i % 2, 60, 0.98) for i in range(40)], columns=answered(80)
        ),
        args=[],
    )
    assert words(row) == ("KVCacheFull", "KVMemory")


def test_work_done_twice_proves_nothing_about_compute() -> None:
    point = LoadPoint(
        FILLING, columns=answered(400, prompt=1000, output=100), preemptions=40.0
    )
    (row,) = judged(point, args=[])
    assert words(row) == ("KVCacheFull", "KVMemory")
    assert "40 were preempted" in explained(row)[0].sentence
    assert "40 preemptions" in explained(row)[1].sentence


# ---- among load points
# ----------------------------------------------------------------------------------------------


def at(
    users: int, *, running: float, requests: int, begins_at: float, **changes: float
) -> LoadPoint:
    """Forty seconds in which so many requests were answered."""
    gauges = [(running, float(users) - running, running / 200)] * 40
    return LoadPoint(
        gauges,
        columns=answered(requests, start_us=spread(requests)),
        value=str(users),
        begins_at=begins_at,
    )


def test_load_points_that_bring_no_more_throughput() -> None:
    rows = judged(
        at(4, running=4, requests=100, begins_at=0),
        at(16, running=16, requests=400, begins_at=100),
        at(64, running=64, requests=408, begins_at=200),
        args=[],
    )
    assert [words(row)[1] for row in rows] == ["None", "Compute", "Compute"]
    golden(explained(rows[2])[1].sentence)


def test_load_points_that_bring_more() -> None:
    rows = judged(
        at(4, running=4, requests=100, begins_at=0),
        at(16, running=16, requests=400, begins_at=100),
        args=[],
    )
    assert [words(row) for row in rows] == [("None", "None"), ("None", "None")]


def test_more_users_in_as_many_places_compare_nothing() -> None:
    rows = judged(
        at(2, running=2, requests=100, begins_at=0),
        at(8, running=2, requests=100, begins_at=100),
        args=TWO_PLACES,
    )
    assert [words(row) for row in rows] == [
        ("None", "None"),
        ("SequenceLimit", "SequenceLimit"),
    ]


def test_invalid_load_points_are_no_evidence() -> None:
    broken = at(64, running=64, requests=408, begins_at=100)
    broken.record = broken.record.model_copy(
        update={"requests": answered(408, ok=[1] * 300 + [0] * 108)}
    )
    rows = judged(at(16, running=16, requests=400, begins_at=0), broken, args=[])
    assert rows[1].verdict == "Invalid"
    assert words(rows[0])[1] == "None"


# ---- the client
# -----------------------------------------------------------------------------------------------------


def test_a_client_that_comes_too_late() -> None:
    late = client(lag_p99_us=80_000)
    (row,) = judged(
        LoadPoint([(7.5, 0, 0.2)] * 40, columns=answered(80), client=late), args=[]
    )
    assert words(row)[1] == "Client"
    assert explained(row)[1].evidence == {"eventLoopLagP99Ms": 80.0}
    golden(explained(row)[1].sentence)


def test_a_rule_that_is_off_changes_no_explanation() -> None:
    slow = LoadPoint(
        [(7.5, 0, 0.2)] * 40, columns=answered(80), client=client(lag_p99_us=80_000)
    )
    (row,) = judged(slow, args=[], off=["ClientSaturated"])
    assert ("ClientSaturated" in row.findings, words(row)[1]) == (False, "Client")


def test_a_late_client_that_keeps_a_queue_standing_is_not_the_limit() -> None:
    point = eight_users_in_two_places()
    point.record = point.record.model_copy(
        update={"client": client(lag_p99_us=80_000)}
    )
    (row,) = judged(point, args=["--max-num-seqs=2"])
    assert "ClientSaturated" in row.findings
    assert words(row) == ("SequenceLimit", "SequenceLimit")


def test_a_slow_client_reports_nothing_of_the_server_at_another_load() -> None:
    slow = at(64, running=64, requests=408, begins_at=100)
    slow.record = slow.record.model_copy(
        update={"client": client(lag_p99_us=80_000)}
    )
    rows = judged(at(16, running=16, requests=400, begins_at=0), slow, args=[])
    assert [words(row)[1] for row in rows] == ["None", "Client"]


# ---- an open loop
# ---------------------------------------------------------------------------------------------------


def test_arrivals_beyond_capacity() -> None:
    """Twenty a second come for thirty seconds, eight are answered."""
    count = 600
    e2el = [500_000 + round(i / 8 * 1e6 - i / 20 * 1e6) for i in range(count)]
    columns = answered(
        count,
        start_us=[50_000 * i for i in range(count)],
        e2el_us=e2el,
        ttft_us=[each - 400_000 for each in e2el],
    )
    gauges = [
        (float(min(8, 2 + i)), max(0.0, 12.0 * (i - 1)), 0.2) for i in range(30)
    ]
    point = LoadPoint(
        gauges,
        columns=columns,
        axis="RequestRate",
        value="20",
        scalars={"duration": 75.0},
    )
    (row,) = judged(point, args=["--max-num-seqs=8"])
    assert words(row) == ("BeyondCapacity", "SequenceLimit")
    (silent,) = judged(point, args=["--max-num-seqs=8"], off=["NotSteadyState"])
    assert (silent.waiting, "NotSteadyState" in silent.findings) == (
        row.waiting,
        False,
    )
    evidence = explained(row)[0].evidence
    assert evidence["arrivalsPerSecond"] == pytest.approx(20, abs=0.5)
    assert evidence["seconds"] == pytest.approx(15, abs=0.5)
    golden(explained(row)[0].sentence)


@pytest.mark.parametrize(
    ("think_seconds", "is_supplied"), [(0.0, True), (5.0, False)]
)
def test_only_users_that_do_not_think_keep_a_server_supplied(
    think_seconds: float, is_supplied: bool
) -> None:
    load = users(8, think_seconds=think_seconds)
    stages = (context(load=load)(record()),)
    measured = LoadPointContext(
        load_point("chat", "Concurrency", "8"), Thresholds(), load, ("50",), stages
    )
    (observed,) = seen_at(measured, (), {}).values()
    assert observed.always_busy is is_supplied
