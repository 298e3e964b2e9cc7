"""The one form of a session: any order of its turns gives one in which each can be sent."""

from typing import Any

import pytest
from benchrun_client.contract.sessions import (
    MAX_TURNS,
    DraftTurn,
    NewTokens,
    SessionError,
    session_of,
)
from hypothesis import given, strategies as st


def draft(name: str, after: tuple[str, ...] = (), **changes: Any) -> DraftTurn:
    return DraftTurn(
        **{
            "name": name,
            "after": after,
            "adds": NewTokens(8),
            "output_tokens": 4,
            **changes,
        }
    )


@st.composite
def graphs(draw: st.DrawFn) -> list[DraftTurn]:
    """Draw turns without circles, in any order."""
    count = draw(st.integers(1, 12))
    drafts = []
    for number in range(count):
        earlier = [str(other) for other in range(number)]
        after = draw(st.sets(st.sampled_from(earlier))) if earlier else set()
        continues = draw(st.sampled_from([None, *sorted(after)]))
        drafts.append(draft(str(number), tuple(sorted(after)), continues=continues))
    return draw(st.permutations(drafts))


@given(graphs())
def test_turns_stand_behind_those_that_they_come_after(
    drafts: list[DraftTurn],
) -> None:
    session = session_of("s", drafts)
    assert len(session.turns) == len(drafts)
    for place, turn in enumerate(session.turns):
        assert all(parent < place for parent in turn.after)
        assert turn.continues is None or turn.continues in turn.after
    links = sum(len(turn.after) for turn in session.turns)
    assert links == sum(len(each.after) for each in drafts)


@given(graphs(), st.data())
def test_a_circle_is_refused_wherever_it_is(
    drafts: list[DraftTurn], data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(drafts) - 1))
    one = drafts[number]
    drafts[number] = one._replace(after=(*one.after, "back"))
    drafts.append(draft("back", (one.name,)))
    with pytest.raises(SessionError, match="in a circle"):
        session_of("s", drafts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"after": ("b",)}, "does not have"),
        ({"continues": "a"}, "does not come after"),
        ({"delay_seconds": -0.1}, "clocks must not run back"),
        ({"delay_seconds": float("nan")}, "clocks must not run back"),
        ({"output_tokens": None}, "neither the length of its answer"),
        ({"output_tokens": 0}, "asks for an answer"),
        ({"adds": NewTokens(0)}, "adds less than 1"),
        ({"adds": NewTokens(10**8)}, "more than 10000000 tokens"),
    ],
)
def test_values_out_of_bounds_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(SessionError, match=message):
        session_of("s", [draft("a", **changes)])


def test_a_session_has_a_turn_and_not_too_many() -> None:
    with pytest.raises(SessionError, match="at least one turn"):
        session_of("s", [])
    with pytest.raises(SessionError, match="at most 4096 turns"):
        session_of("s", [draft(str(n)) for n in range(MAX_TURNS + 1)])
