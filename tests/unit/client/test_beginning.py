"""When the users of a closed loop begin, and in which order their requests go."""

from __future__ import annotations

import asyncio

import pytest
from benchrun_client.load.stand_ins import ALL_USERS_SECONDS, HANDING_OUT_SECONDS, USER_GAP_SECONDS, UserRamp
from unit.runtime.fast_time import now, passing, run_fast


async def all_at_once(users: int, requests: int) -> list[tuple[float | None, float]]:
    """When each request was due and when it went, all of them asked for at one instant."""
    beginning = UserRamp(users, clock=now)

    async def goes() -> tuple[float | None, float]:
        return await beginning.turn(), now()

    return await asyncio.gather(*(goes() for _ in range(requests)))


def test_users_begin_one_after_the_other_and_nobody_waits_after_that() -> None:
    gap = USER_GAP_SECONDS
    went = run_fast(all_at_once(4, 6))
    assert [due for due, _ in went] == [0.0, gap, 2 * gap, 3 * gap, None, None]
    assert [at for _, at in went] == pytest.approx([0.0, gap, 2 * gap, 3 * gap, 3 * gap, 3 * gap])


@pytest.mark.parametrize("users", [1, 250, 251, 5000])
def test_however_many_they_are_all_begin_in_time(users: int) -> None:
    *_, (due, at) = run_fast(all_at_once(users, users))
    assert due is not None
    assert due <= at <= min(ALL_USERS_SECONDS, USER_GAP_SECONDS * users)


def test_requests_that_arrive_by_themselves_go_when_they_come() -> None:
    assert run_fast(all_at_once(0, 3)) == [(None, 0.0)] * 3


def test_a_user_who_is_answered_before_all_have_begun_does_not_overtake_them() -> None:
    """Results are told apart by the order of their requests."""
    went: list[str] = []

    async def user(beginning: UserRamp, name: str) -> None:
        for request in ("first", "next"):
            await beginning.turn()
            went.append(f"{name} {request}")
            await passing(USER_GAP_SECONDS / 2)

    async def three() -> None:
        beginning = UserRamp(3, clock=now)
        await asyncio.gather(*(user(beginning, name) for name in "abc"))

    run_fast(three())
    assert went[:3] == ["a first", "b first", "c first"]
    assert sorted(went[3:]) == ["a next", "b next", "c next"]


def test_the_first_user_begins_when_every_request_was_handed_out() -> None:
    """To hand out thousands takes tens of milliseconds, which would be the first users' TTFT."""
    course: list[str] = []

    async def goes(beginning: UserRamp) -> None:
        course.append("handed out")
        await beginning.turn()
        course.append("sent")

    async def many() -> None:
        beginning = UserRamp(2, clock=now)
        await asyncio.gather(*(goes(beginning) for _ in range(5)))

    run_fast(many())
    assert course == ["handed out"] * 5 + ["sent"] * 5


async def begin_agreed(users: int, own: range, requests: int) -> list[tuple[float | None, float]]:
    beginning = UserRamp(users, own=own, clock=now)
    beginning.agree(10.0, requests=requests)

    async def goes() -> tuple[float | None, float]:
        return await beginning.turn(), now()

    return await asyncio.gather(*(goes() for _ in range(len(own) + 1)))


def test_users_of_several_shards_begin_as_those_of_one() -> None:
    """They are counted over all shards, from an instant that all know."""
    gap, first = USER_GAP_SECONDS, 10.0 + 7 * HANDING_OUT_SECONDS
    even, odd = (run_fast(begin_agreed(5, range(shard, 5, 2), 7)) for shard in (0, 1))
    assert [due for due, _ in even] == [first, first + 2 * gap, first + 4 * gap, None]
    assert [due for due, _ in odd] == [first + gap, first + 3 * gap, None]
    assert [at for _, at in odd[:2]] == pytest.approx([first + gap, first + 3 * gap])
