"""Users of a closed loop: how they begin, how long they think, and what a round of them takes."""

import asyncio
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pytest
from benchrun_client.contract import (
    AtOnceLoad,
    BatchLoad,
    Load,
    RateLoad,
    ThinkTime,
    TraceLoad,
    UsersLoad,
    UserStart,
)
from benchrun_client.load.closed_loop import (
    ALL_USERS_SECONDS,
    HANDING_OUT_SECONDS,
    MAX_SPREAD_SECONDS,
    USER_GAP_SECONDS,
    AnswerTime,
    Thinking,
    UserRamp,
    answer_time,
    gap_of,
    nearest,
    smallest_gap_seconds,
    think_seconds,
    user_start,
)
from benchrun_client.stage_record import Instants
from unit.runtime.fast_time import now, passing, run_fast


async def all_at_once(
    users: int, requests: int
) -> list[tuple[float | None, float]]:
    """When each request was due and when it went, all of them asked for at one instant."""
    beginning = UserRamp(users, clock=now)

    async def goes() -> tuple[float | None, float]:
        return await beginning.turn(), now()

    return await asyncio.gather(*(goes() for _ in range(requests)))


def test_users_begin_one_after_the_other_and_nobody_waits_after_that() -> None:
    gap = USER_GAP_SECONDS
    went = run_fast(all_at_once(4, 6))
    assert [due for due, _ in went] == [0.0, gap, 2 * gap, 3 * gap, None, None]
    assert [at for _, at in went] == pytest.approx(
        [0.0, gap, 2 * gap, 3 * gap, 0.0, 0.0]
    )


@pytest.mark.parametrize("users", [1, 250, 251, 5000])
def test_however_many_they_are_all_begin_in_time(users: int) -> None:
    *_, (due, at) = run_fast(all_at_once(users, users))
    assert due is not None
    assert due <= at <= min(ALL_USERS_SECONDS, USER_GAP_SECONDS * users)


def test_requests_that_arrive_by_themselves_go_when_they_come() -> None:
    assert run_fast(all_at_once(0, 3)) == [(None, 0.0)] * 3


def test_the_first_user_begins_when_every_request_was_handed_out() -> None:
    """To hand out thousands takes tens of milliseconds, which would be the first users' TTFT."""
    course: list[str] = []

    async def goes(beginning: UserRamp) -> None:
        course.append("handed out")
        await beginning.turn()
        course.append("sent")

    async def many() -> None:
        beginning = UserRamp(5, clock=now)
        await asyncio.gather(*(goes(beginning) for _ in range(5)))

    run_fast(many())
    assert course == ["handed out"] * 5 + ["sent"] * 5


async def begin_agreed(
    users: int, own: range, requests: int, *, gap: float | None = None
) -> list[tuple[float | None, float]]:
    beginning = UserRamp(users, own=own, clock=now)
    beginning.agree(10.0, requests=requests, gap_seconds=gap)

    async def goes() -> tuple[float | None, float]:
        return await beginning.turn(), now()

    return await asyncio.gather(*(goes() for _ in range(len(own) + 1)))


def test_users_of_several_shards_begin_as_those_of_one() -> None:
    """They are counted over all shards, from an instant that all know."""
    gap = USER_GAP_SECONDS
    first = 10.0 + 7 * HANDING_OUT_SECONDS
    even, odd = (
        run_fast(begin_agreed(5, range(shard, 5, 2), 7)) for shard in (0, 1)
    )
    assert [due for due, _ in even] == [
        first,
        first + 2 * gap,
        first + 4 * gap,
        None,
    ]
    assert [due for due, _ in odd] == [first + gap, first + 3 * gap, None]
    assert [at for _, at in odd[:2]] == pytest.approx(
        [first + gap, first + 3 * gap]
    )


def test_users_that_begin_spread_are_sent_evenly_and_the_answered_do_not_wait_for_them() -> (
    None
):
    """Four users over 8 s; the first is answered after 3 s, and its next request goes at once."""
    went: list[tuple[str, float | None, float]] = []

    async def request(ramp: UserRamp, name: str) -> None:
        due = await ramp.turn()
        went.append((name, due, now()))

    async def spread() -> None:
        ramp = UserRamp(4, gap_seconds=2.0, clock=now)
        first = [asyncio.create_task(request(ramp, name)) for name in "abcd"]
        await passing(3.0)
        await request(ramp, "a again")
        await asyncio.gather(*first)

    run_fast(spread())
    assert [name for name, *_ in went] == ["a", "b", "a again", "c", "d"]
    assert [due for _, due, _ in went] == [0.0, 2.0, None, 4.0, 6.0]
    assert [at for *_, at in went] == pytest.approx([0.0, 2.0, 3.0, 4.0, 6.0])


def test_shards_spread_their_users_by_the_gap_that_was_agreed() -> None:
    first = 10.0 + 7 * HANDING_OUT_SECONDS
    even, odd = (
        run_fast(begin_agreed(5, range(shard, 5, 2), 7, gap=3.0))
        for shard in (0, 1)
    )
    assert [due for due, _ in even] == [first, first + 6.0, first + 12.0, None]
    assert [due for due, _ in odd] == [first + 3.0, first + 9.0, None]


async def closed(
    users: int, thinks: Sequence[float], answer_seconds: float
) -> tuple[list[float], float]:
    """When each request was sent, and when all had returned: a semaphore around requests, as vLLM
    has it."""
    places = asyncio.Semaphore(users)
    thinking = Thinking(thinks)
    sent: list[float] = []

    async def request(number: int) -> None:
        async with places:
            thinking.enter()
            sent.append(now())
            await passing(answer_seconds)
            await thinking.after(number)

    await asyncio.gather(*(request(number) for number in range(len(thinks))))
    return sent, now()


def test_a_user_thinks_after_each_answer_and_nobody_without_a_next_request_does() -> (
    None
):
    sent, ended = run_fast(closed(1, [5.0, 7.0, 100.0], 1.0))
    assert sent == pytest.approx([0.0, 6.0, 14.0])
    assert ended == pytest.approx(15.0)


def test_the_last_request_ends_the_thinking_of_the_others() -> None:
    """The second user thinks for 100 s when the first takes the last request."""
    sent, ended = run_fast(closed(2, [2.0, 100.0, 50.0], 1.0))
    assert sent == pytest.approx([0.0, 0.0, 3.0])
    assert ended == pytest.approx(4.0)


def test_a_place_freed_without_a_think_time_is_never_taken_early() -> None:
    """Each request follows an answer by the think time of that answer."""
    sent, _ = run_fast(closed(2, [4.0, 1.0, 2.0, 9.0, 9.0], 1.0))
    assert sent == pytest.approx([0.0, 0.0, 2.0, 5.0, 5.0])


def test_without_think_times_the_next_request_goes_at_once() -> None:
    async def none() -> float:
        thinking = Thinking(())
        thinking.enter()
        await thinking.after(0)
        return now()

    assert run_fast(none()) == 0.0


def test_equal_seeds_draw_equal_think_times_of_the_right_mean() -> None:
    think = ThinkTime(mean_seconds="2.5")
    drawn = think_seconds(think, seed=7, requests=20_000)
    assert drawn == think_seconds(think, seed=7, requests=20_000)
    assert drawn[:3] != think_seconds(think, seed=8, requests=3)
    assert drawn[:3] == pytest.approx(think_seconds(think, seed=7, requests=3))
    assert fmean(drawn) == pytest.approx(2.5, rel=0.03)
    # Exponential: as many are longer than the mean as 1 / e.
    assert sum(each > 2.5 for each in drawn) / 20_000 == pytest.approx(
        0.368, abs=0.015
    )


def test_constant_think_times_are_the_mean_and_no_think_time_is_none() -> None:
    think = ThinkTime(mean_seconds="0.5", distribution="Constant")
    assert think_seconds(think, seed=1, requests=3) == [0.5, 0.5, 0.5]
    assert think_seconds(None, seed=1, requests=3) == ()


def instants(took: Sequence[float], *, failed: int = -1) -> Instants:
    ok = [number != failed for number in range(len(took))]
    return Instants(
        sent=[1.0] * len(took), answered=[1.0 + each for each in took], ok=ok
    )


def test_the_answer_time_is_that_of_answered_requests() -> None:
    found = answer_time(instants([1.0, 3.0, 90.0], failed=2), users=2)
    assert found == AnswerTime(users=2, seconds=2.0)
    assert answer_time(instants([1.0], failed=0), users=1) is None


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        pytest.param(2, 2.0, id="the second wave"),
        pytest.param(4, 2.0, id="half a wave"),
        pytest.param(5, 6.0, id="hardly any of a second wave"),
    ],
)
def test_a_warm_up_is_known_by_its_second_wave(users: int, expected: float) -> None:
    took = [10.0, 10.0, *([2.0] * 4)] if users == 2 else [8.0] * 4 + [2.0] * 2
    found = answer_time(instants(took), users=users, warmup=True)
    assert found is not None
    assert found.seconds == expected


def test_the_nearest_load_in_ratio_counts_and_the_latest_of_equals() -> None:
    known = [
        AnswerTime(64, 6.4),
        AnswerTime(1, 0.1),
        AnswerTime(4, 0.4),
        AnswerTime(4, 0.5),
    ]
    assert nearest(known, users=4) == 0.5
    assert nearest(known, users=32) == 6.4
    assert nearest([], users=4) is None


SPREAD: dict[str, Any] = {"start": "Spread"}


@pytest.mark.parametrize(
    ("users", "requests", "seconds", "think", "over"),
    [
        pytest.param(10, 100, 5.0, None, 5.0, id="a round"),
        pytest.param(10, 30, 5.0, None, 3.0, id="a fifth of the stage"),
        pytest.param(10, 1000, 90.0, None, MAX_SPREAD_SECONDS, id="the longest"),
        pytest.param(10, 100, 5.0, "20", 25.0, id="a round with thinking"),
        pytest.param(
            10,
            1000,
            90.0,
            "20",
            MAX_SPREAD_SECONDS + 20,
            id="the longest with thinking",
        ),
    ],
)
def test_users_begin_over_a_round_within_bounds(
    users: int, requests: int, seconds: float, think: str | None, over: float
) -> None:
    drawn = None if think is None else ThinkTime(mean_seconds=think)
    point = UsersLoad(concurrency=users, think_seconds=drawn, **SPREAD)
    found = user_start(point, requests=requests, known=[AnswerTime(users, seconds)])
    assert found is not None
    assert found.mode == "Spread"
    assert found.seconds == pytest.approx(over * (users - 1) / users)
    assert found.round_seconds == seconds + float(think or 0)
    assert gap_of(found, users=users) == pytest.approx(over / users)


def test_short_answers_do_not_bring_users_closer_than_it_takes_to_send() -> None:
    point = UsersLoad(concurrency=10, **SPREAD)
    found = user_start(point, requests=100, known=[AnswerTime(10, 0.001)])
    assert found is not None
    assert found.seconds == pytest.approx(9 * smallest_gap_seconds(10))


@pytest.mark.parametrize(
    ("point", "known", "users"),
    [
        pytest.param(UsersLoad(concurrency=8, **SPREAD), [], 8, id="nothing known"),
        pytest.param(
            UsersLoad(concurrency=8, start="Together"),
            [AnswerTime(8, 5.0)],
            8,
            id="asked for",
        ),
        pytest.param(
            UsersLoad(concurrency=8, **SPREAD), [], 3, id="fewer requests"
        ),
    ],
)
def test_else_users_begin_together(
    point: Load, known: list[AnswerTime], users: int
) -> None:
    found = user_start(
        point, requests=min(users, 8) if users == 3 else 80, known=known
    )
    assert found == UserStart(
        mode="Together", seconds=USER_GAP_SECONDS * (users - 1)
    )
    assert gap_of(found, users=users) is None


@pytest.mark.parametrize(
    "point",
    [
        RateLoad(requests_per_second="4"),
        RateLoad(requests_per_second="4", max_concurrency=8),
        TraceLoad(speed="1"),
        AtOnceLoad(),
        BatchLoad(size=4),
    ],
)
def test_loads_without_users_have_no_beginning(point: Load) -> None:
    assert user_start(point, requests=80, known=[AnswerTime(8, 5.0)]) is None
    assert gap_of(None, users=8) is None
