"""What rules share about a stage: worked out once, of answered requests only."""

import pytest
from benchrun.judge.stage_facts import ExpectedStage, StageFacts
from benchrun.measure import NoPlateau, Plateau
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import open_loop_load, users
from unit.measure.records import record, requests

SOME_FAILED = record(
    requests=requests(
        ttft_us=[1_000, 0, 3_000],
        e2el_us=[11_000, 0, 23_000],
        output_tokens=[11, 0, 1],
        ok=[1, 0, 1],
    )
)


def test_failed_requests_have_no_latencies() -> None:
    shape = StageFacts(SOME_FAILED, open_loop_load())
    assert (list(shape.answered), list(shape.ttft_us), list(shape.e2el_us)) == (
        [0, 2],
        [1_000, 3_000],
        [11_000, 23_000],
    )


def test_an_answer_of_one_token_has_no_tpot() -> None:
    assert list(StageFacts(SOME_FAILED, open_loop_load()).tpot_us) == [1_000.0]


def test_mean_in_flight_is_all_latencies_over_the_duration() -> None:
    assert StageFacts(
        SOME_FAILED, open_loop_load()
    ).mean_in_flight == pytest.approx(0.0034)


def test_batches_are_milliseconds() -> None:
    batches = StageFacts(SOME_FAILED, open_loop_load()).batches
    assert {figure: list(means) for figure, means in batches.items()} == {
        "meanTtftMs": [1.0, 3.0],
        "meanTpotMs": [1.0],
        "meanE2elMs": [11.0, 23.0],
        "outputTokensPerSecond": [],
    }


def test_throughput_is_that_of_the_middle() -> None:
    """Ten answers of five tokens each second, for twenty seconds: the first and the last second are
    left out."""
    ends = [100_000 * i + 50_000 for i in range(200)]
    columns = requests(
        ttft_us=ends, e2el_us=ends, output_tokens=[5] * 200, start_us=[0] * 200
    )
    shape = StageFacts(
        record(requests=columns, scalars={"duration": 20.0}),
        open_loop_load(rate=None),
    )
    assert shape.batches["outputTokensPerSecond"] == [50.0] * 18


@pytest.mark.parametrize(
    ("waiting", "load"),
    [
        pytest.param(
            2,
            open_loop_load(rate=9.0, concurrency=1),
            id="a rate and a cap: those held back want to be served",
        ),
        pytest.param(0, users(1), id="users wait for themselves"),
    ],
)
def test_demand(waiting: int, load: ExpectedStage) -> None:
    """Three requests are due at once and served in turn."""
    columns = requests(
        ttft_us=[1] * 3,
        e2el_us=[1_000_000] * 3,
        output_tokens=[2] * 3,
        start_us=[0, 1_000_000, 2_000_000],
        queue_us=[0, 1_000_000, 2_000_000],
    )
    assert (
        StageFacts(record(requests=columns), load).demand.at(500_000) == 1 + waiting
    )


def test_late_sends_are_no_gap_between_client_and_server() -> None:
    late = StageFacts(
        record(requests=requests(queue_us=(20_000, 40_000))), open_loop_load()
    )
    assert late.ttft_gap_ms == 0.0
    assert late.mean_ttft_ms == 25.0
    assert late.batches["meanTtftMs"] == [40.0, 70.0]
    assert late.batches["meanE2elMs"] == [140.0, 170.0]


def test_the_plateau_is_that_of_the_load_requested() -> None:
    assert isinstance(
        open_loop(Server(), rate=10, count=200, seed=1).plateau, Plateau
    )
    assert isinstance(
        closed_loop(Server(), concurrency=8, count=100, seed=1).plateau, Plateau
    )
    assert (
        StageFacts(SOME_FAILED, open_loop_load(rate=None)).plateau
        is NoPlateau.ALL_AT_ONCE
    )
