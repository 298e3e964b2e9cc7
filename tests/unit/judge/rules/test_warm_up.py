"""An engine that compiles while it is measured, and first requests that are slow for no other
reason than being first."""

from collections.abc import Sequence
from random import Random
from typing import Any, Literal

import pytest
from benchrun.judge.rules.rule import (
    Code,
    LoadPointContext,
    RunContext,
    StageFinding,
)
from benchrun.judge.rules.warm_up import (
    batch_not_warmed_up,
    cold_start,
    compilation_in_window,
    warmup_incomplete,
)
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from benchrun_client.contract import StageRecord, UserStart, WarmupOutcome
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import (
    OPEN_LOOP,
    context,
    findings,
    one_finding,
    open_loop_load,
    unchecked,
    users,
)
from unit.measure.records import edge, load_point, record, requests, sample

# ---- compilation
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "compilations"),
    [
        pytest.param(0, (), id="none"),
        pytest.param(0, (999.9, 1010.1), id="before and after"),
        pytest.param(
            2, (1000.0, 1010.0), id="at the first send and at the last answer"
        ),
        pytest.param(1, (5.0, 1004.0, 2000.0), id="one within"),
    ],
)
def test_compilations_in_the_window(
    inside: int, compilations: tuple[float, ...]
) -> None:
    """The stage lasts from second 1000 to 1010."""
    found = findings(
        compilation_in_window(context(compilations=compilations)(record()))
    )
    assert [f.evidence["compilations"] for f in found] == [inside] * bool(inside)


def test_a_log_that_cannot_be_read_reports_nothing() -> None:
    (missed,) = unchecked(
        compilation_in_window(context(compilations=None)(record()))
    )
    assert missed.code is Code.COMPILATION_IN_WINDOW


def test_evidence_of_compiling() -> None:
    assert compilation_in_window(
        context(compilations=(1007.0, 1002.5))(record())
    ) == one_finding(
        Code.COMPILATION_IN_WINDOW,
        "Suspect",
        2,
        compilations=2,
        firstAfterSeconds=2.5,
    )


# ---- cold start
# -----------------------------------------------------------------------------------------------------

OPEN = open_loop_load(rate=10.0)


def stage(ttft_ms: Sequence[float], **changes: Any) -> StageRecord:
    """Answers end a second after their first token."""
    ttft_us = [round(1000 * each) for each in ttft_ms]
    columns = {
        "ttft_us": ttft_us,
        "e2el_us": [each + 1_000_000 for each in ttft_us],
        "output_tokens": [9] * len(ttft_us),
    }
    return record(requests=requests(**(columns | changes)))


def is_cold(measured: StageRecord, load: ExpectedStage = OPEN) -> bool:
    return [f.code for f in findings(cold_start(context(load=load)(measured)))] == [
        Code.COLD_START
    ]


@pytest.mark.parametrize(
    ("cold", "ttft_ms"),
    [
        pytest.param(False, [20] * 100, id="all alike"),
        pytest.param(True, [900] * 3 + [20] * 97, id="three slow ones first"),
        pytest.param(
            False,
            [120] * 3 + [20] * 97,
            id="100 ms above the usual is a connection",
        ),
        pytest.param(True, [121] * 3 + [20] * 97, id="more than that"),
        pytest.param(False, [1500] * 3 + [500] * 97, id="three times the usual"),
        pytest.param(True, [1501] * 3 + [500] * 97, id="more than that"),
        pytest.param(
            False, [20] + [900] * 3 + [20] * 96, id="not from the first on: a queue"
        ),
        pytest.param(
            False,
            [900] + [20] * 98 + [301],
            id="a single one, and another a third as slow",
        ),
        pytest.param(
            True,
            [900] + [20] * 98 + [299],
            id="a single one, thrice as slow as any other",
        ),
        pytest.param(
            False,
            [900] * 2 + [20, 900] * 20 + [20] * 58,
            id="slow ones everywhere: chance sets two first",
        ),
        pytest.param(
            True,
            [900] * 7 + [20, 900] * 20 + [20] * 53,
            id="chance does not set seven first",
        ),
        pytest.param(
            False, [900] * 2 + [20] * 98, id="two of 100: once in 5,000 orders"
        ),
        pytest.param(True, [900] * 2 + [20] * 99, id="two of 101: less often"),
        pytest.param(
            False, [900] * 3 + [20] * 16, id="too few to know what is usual"
        ),
        pytest.param(False, [900], id="a single request"),
    ],
)
def test_first_requests_under_a_rate(cold: bool, ttft_ms: list[float]) -> None:
    assert is_cold(stage(ttft_ms)) == cold


def test_failed_requests_are_not_the_first() -> None:
    assert is_cold(stage([0, 0, *[900] * 3, *[20] * 97], ok=[0, 0] + [1] * 100))


@pytest.mark.parametrize(
    ("cold", "tokens"), [(True, 100), (True, 400), (False, 1000)]
)
def test_a_long_first_prompt_may_take_its_time(cold: bool, tokens: int) -> None:
    """What counts as slow, 120 ms, is stretched as the longest prompt among them is: to 120, 480
    and 1200 ms."""
    assert (
        is_cold(stage([900] * 3 + [20] * 97, input_tokens=[tokens] + [100] * 99))
        == cold
    )


def test_a_load_sent_all_at_once_has_no_first_requests() -> None:
    assert not is_cold(stage([900] * 3 + [20] * 97), open_loop_load(rate=None))


@pytest.mark.parametrize(
    ("cold", "ttft_ms", "later_ms"),
    [
        pytest.param(
            True,
            [900] * 8 + [20] * 92,
            880,
            id="all of the first wave, and they end as much later",
        ),
        pytest.param(True, [900] * 8 + [20] * 92, 440, id="half as much"),
        pytest.param(
            False,
            [900] * 8 + [20] * 92,
            439,
            id="less: prompts and tokens share the engine",
        ),
        pytest.param(
            False,
            [20] + [900] * 7 + [20] * 92,
            880,
            id="one was served at once: they waited for each other",
        ),
        pytest.param(
            False,
            [900] * 7 + [20] * 93,
            880,
            id="the last of the wave was not slow",
        ),
    ],
)
def test_the_first_wave_of_a_closed_loop(
    cold: bool, ttft_ms: list[float], later_ms: int
) -> None:
    ends = [1_020_000 + 1000 * later_ms * (ttft > 20) for ttft in ttft_ms]
    assert is_cold(stage(ttft_ms, e2el_us=ends), users(8)) == cold


@pytest.mark.parametrize(("cold", "mode"), [(True, "Spread"), (False, "Together")])
def test_users_that_begin_spread_have_no_first_wave(
    cold: bool, mode: Literal["Spread", "Together"]
) -> None:
    """Three of eight users were slow: the others began when the engine was warm."""
    ttft_ms = [900] * 3 + [20] * 97
    ends = [1_020_000 + 880_000 * (ttft > 20) for ttft in ttft_ms]
    measured = stage(ttft_ms, e2el_us=ends).model_copy(
        update={"user_start": UserStart(mode=mode, seconds=1.0)}
    )
    assert is_cold(measured, users(8)) == cold


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_a_cold_server_is_found_under_any_load(seconds: float, seed: int) -> None:
    """It holds up each of its first eight requests."""
    cold = Server(held_up=lambda number: seconds if number < 8 else 0.0)
    for measured in (
        open_loop(cold, rate=10, count=200, seed=seed),
        closed_loop(cold, concurrency=1, count=100, seed=seed),
        closed_loop(cold, concurrency=8, count=100, seed=seed),
    ):
        assert is_cold(measured.record, measured.expected)


@pytest.mark.parametrize("lengths_vary", [False, True])
@pytest.mark.parametrize("concurrency", [2, 4, 16, 64])
@pytest.mark.parametrize("prefill_seconds", [0.01, 0.2])
def test_a_first_wave_that_waits_for_its_own_prefills_is_not_cold(
    prefill_seconds: float, concurrency: int, lengths_vary: bool
) -> None:
    server = Server(
        prefill_seconds=prefill_seconds,
        decode_seconds=4.0,
        lengths_vary=lengths_vary,
    )
    for seed in range(10):
        measured = closed_loop(
            server, concurrency=concurrency, count=10 * concurrency, seed=seed
        )
        assert not is_cold(measured.record, measured.expected)


def test_evidence_of_a_cold_start() -> None:
    assert cold_start(
        context(load=OPEN)(stage([800, 900, 1000] + [20] * 97))
    ) == one_finding(
        Code.COLD_START,
        "Suspect",
        45.0,
        slowRequests=3,
        requests=100,
        medianTtftOfThemMs=900.0,
        medianTtftOfOthersMs=20.0,
        slowestOfOthersMs=20.0,
        slowFromMs=120.0,
        chance=6.1843e-06,
        suspectChance=2e-4,
        suspectFactor=3.0,
    )


def after(answered: int, failed: int = 0) -> StageRecord:
    """The first stage of a workload whose warm-up was to send 16 requests."""
    return record(
        warmup=WarmupOutcome(
            requests=16, answered=answered, failed=failed, took_us=60_010_000
        )
    )


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param(after(16), id="all answered"),
        pytest.param(record(), id="a later stage, or no warm-up"),
    ],
)
def test_a_warm_stage_has_no_finding(measured: StageRecord) -> None:
    assert warmup_incomplete(context()(measured)) == []


@pytest.mark.parametrize(
    ("failed", "cut_short", "measured"),
    [
        pytest.param(1, 0, after(15, failed=1), id="one failed"),
        pytest.param(0, 9, after(7), id="cut short"),
        pytest.param(2, 7, after(7, failed=2), id="both"),
    ],
)
def test_what_is_missing_is_distinguished(
    failed: int, cut_short: int, measured: StageRecord
) -> None:
    (found,) = warmup_incomplete(context()(measured))
    assert isinstance(found, StageFinding)
    assert (found.evidence["failed"], found.evidence["cutShort"]) == (
        failed,
        cut_short,
    )


def test_evidence() -> None:
    assert warmup_incomplete(context()(after(12, failed=1))) == one_finding(
        Code.WARMUP_INCOMPLETE,
        "Note",
        0.25,
        requests=16,
        answered=12,
        failed=1,
        cutShort=3,
        seconds=60.01,
    )


# Stages that ran more requests at once than the warm-up did: batches that nothing was compiled for.

POD = "chat-0"


def found(
    *running: float, warmed_up: int | None = 8, requests: int = 16
) -> list[StageFinding]:
    """What is found of stages in order of time, each a load point of its own with so many running at
    most; the first has the warm-up."""
    load_points = {}
    for place, most in enumerate(running):
        planned = load_point(value=str(place + 1))
        outcome = WarmupOutcome(
            requests=requests,
            concurrency=warmed_up,
            answered=16,
            failed=0,
            took_us=1,
        )
        measured = record(
            planned.stage_ids[0], sequence=place, warmup=None if place else outcome
        )
        samples = tuple(
            sample(1001.0 + n, pod=POD, running=each)
            for n, each in enumerate((1.0, most, most / 2))
        )
        profile = context(
            windows=(Window("server", samples, (edge(),), expected=3.0),)
        )(measured)
        load_points[planned.id] = LoadPointContext(
            planned, Thresholds(), OPEN_LOOP, ("50",), (profile,)
        ).summary()
    # Load points are listed as planned, and measured in another order.
    return findings(
        batch_not_warmed_up(
            RunContext(Thresholds(), dict(reversed(load_points.items())))
        )
    )


@pytest.mark.parametrize(
    ("warmed_up", "most", "is_beyond"),
    [(8, 19, False), (8, 20, True), (64, 128, False), (64, 129, True)],
)
def test_twice_the_warm_up_and_more_than_a_burst(
    warmed_up: int, most: int, is_beyond: bool
) -> None:
    assert (
        bool(found(most, warmed_up=warmed_up, requests=2 * warmed_up)) == is_beyond
    )


def test_the_first_stage_that_goes_beyond_is_named_and_later_ones_find_a_warm_engine() -> (
    None
):
    (finding,) = found(8, 100, 120, 100)
    assert (finding.code, finding.severity, finding.stage_id) == (
        Code.WARMUP_INCOMPLETE,
        "Note",
        "chat/rate=2",
    )
    assert (finding.evidence["running"], finding.evidence["warmedUp"]) == (
        100.0,
        8.0,
    )


def test_a_warm_up_of_fewer_requests_is_no_larger_than_these() -> None:
    assert len(found(100, warmed_up=64, requests=8)) == 1


@pytest.mark.parametrize("warmed_up", [None, 0])
def test_an_unknown_warm_up_says_nothing(warmed_up: int | None) -> None:
    assert found(100, warmed_up=warmed_up) == []


@pytest.mark.parametrize("mean", [8, 32, 256])
def test_bursts_of_a_rate_that_the_warm_up_was_made_for_are_none(mean: int) -> None:
    """The most of 300 samples in each of 200 stages, with as many in flight on average as the
    warm-up had."""
    chance = Random(mean)
    most = [
        max(round(chance.gauss(mean, mean**0.5)) for _ in range(300))
        for _ in range(200)
    ]
    assert (
        sum(bool(found(each, warmed_up=mean, requests=2 * mean)) for each in most)
        <= 2
    )
