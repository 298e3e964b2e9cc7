"""When turns of sessions are due, by a clock that only waiting moves."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from benchrun_client.contract.sessions import TurnPlace
from benchrun_client.load.session_schedule import SessionSchedule
from hypothesis import given, strategies as st
from sessions_kit.jumping_loop import JumpingLoop

ANSWER_SECONDS = 2.0


def place(
    session: int, turn: int = 1, after: Sequence[int] = (), *, delay: float = 0.0
) -> TurnPlace:
    return TurnPlace(session, turn, tuple(after), delay)


def sent(
    places: Sequence[TurnPlace],
    *,
    at_once: int,
    fails: Callable[[int], bool] = lambda _: False,
) -> list[tuple[int, float]]:
    """Return each turn that was handed out and when, where an answer takes two seconds."""
    loop = JumpingLoop()
    found: list[tuple[int, float]] = []

    async def run() -> None:
        schedule = SessionSchedule(
            places, sessions_at_once=at_once, clock=loop.time
        )

        async def answer(number: int, position: int) -> None:
            await asyncio.sleep(ANSWER_SECONDS)
            schedule.answered(number, ok=not fails(position))

        async with asyncio.TaskGroup() as answers:
            async for due in schedule.turns():
                assert due.at <= loop.time() + 1e-9
                found.append((due.position, round(loop.time(), 6)))
                answers.create_task(answer(len(found) - 1, due.position))

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    return found


def test_a_turn_waits_for_the_answer_before_it_and_its_pause() -> None:
    chain = [place(0), place(0, 2, [0], delay=3), place(0, 3, [1])]
    assert sent(chain, at_once=1) == [(0, 0), (1, 5), (2, 7)]


def test_as_many_sessions_are_under_way_as_are_asked_for() -> None:
    sessions = [
        turn for n in range(3) for turn in (place(n), place(n, 2, [2 * n], delay=1))
    ]
    # The third begins when one of the first two has ended, at 5 s.
    assert sent(sessions, at_once=2) == [
        *((0, 0), (2, 0)),
        *((1, 3), (3, 3)),
        *((4, 5), (5, 8)),
    ]


def test_agents_of_a_session_send_side_by_side_and_are_waited_for() -> None:
    fork = [
        place(0),
        place(0, 2, [0]),
        place(0, 2, [0], delay=4),
        place(0, 3, [1, 2]),
    ]
    assert sent(fork, at_once=1) == [(0, 0), (1, 2), (2, 6), (3, 8)]


def test_a_failed_turn_ends_its_session_and_the_next_begins() -> None:
    sessions = [place(0), place(0, 2, [0]), place(1), place(1, 2, [2])]
    found = sent(sessions, at_once=1, fails=lambda position: position == 0)
    assert found == [(0, 0), (2, 2), (3, 4)]


def test_turns_that_were_due_already_are_lost_with_their_session() -> None:
    fork = [place(0), place(0, 2, [0]), place(0, 2, [0], delay=10), place(1)]
    found = sent(fork, at_once=1, fails=lambda position: position == 1)
    # The next session does not wait for the pause of a turn that is lost.
    assert found == [(0, 0), (1, 2), (3, 4)]


def test_more_sessions_at_once_than_there_are_all_begin() -> None:
    assert sent([place(0), place(1)], at_once=9) == [(0, 0), (1, 0)]


@st.composite
def stages(draw: st.DrawFn) -> list[TurnPlace]:
    places: list[TurnPlace] = []
    for session in range(draw(st.integers(1, 4))):
        begin = len(places)
        for turn in range(draw(st.integers(1, 5))):
            earlier = list(range(begin, begin + turn))
            after = draw(st.sets(st.sampled_from(earlier))) if earlier else set()
            delay = draw(st.sampled_from([0.0, 0.5, 3.0]))
            places.append(place(session, turn + 1, sorted(after), delay=delay))
    return places


@given(stages(), st.integers(1, 5), st.sets(st.integers(0, 20)))
def test_every_turn_is_sent_once_behind_its_parents_or_lost_by_a_failure(
    places: list[TurnPlace], at_once: int, failing: set[int]
) -> None:
    found = sent(
        places, at_once=at_once, fails=lambda position: position in failing
    )
    at = dict(found)
    assert len(at) == len(found)
    for position, each in enumerate(places):
        if position not in at:
            failed = [
                other
                for other, of in enumerate(places)
                if of.session == each.session and other in failing and other in at
            ]
            assert failed
            continue
        for parent in each.after:
            assert (
                at[position]
                >= at[parent] + ANSWER_SECONDS + each.delay_seconds - 1e-6
            )
            assert parent not in failing
    lasts = {
        session: (
            min(
                at[p]
                for p, of in enumerate(places)
                if of.session == session and p in at
            ),
            max(
                at[p]
                for p, of in enumerate(places)
                if of.session == session and p in at
            )
            + ANSWER_SECONDS,
        )
        for session in {of.session for of in places}
    }
    for begin, _ in lasts.values():
        under_way = [1 for b, e in lasts.values() if b <= begin < e - 1e-6]
        assert len(under_way) <= at_once


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_session_is_forgotten(at_once: int) -> None:
    places = [place(n) for n in range(7)]
    assert sorted(
        position for position, _ in sent(places, at_once=at_once)
    ) == list(range(7))
