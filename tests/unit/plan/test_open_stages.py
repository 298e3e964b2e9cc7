"""Envelopes of a search's stages: those that the search may choose are taken, forged ones are not."""

import pytest
from benchrun.effects import Pulled
from benchrun.plan import problem_with
from benchrun_client.contract import Envelope, Probe, Sealed
from unit.client.search.searches import search
from unit.effects.test_client_records import Says, delivery, linked, sealed

LISTED = ("chat/rate=1/r1", "chat/rate=2/r1")
SEARCHES = (search(requests=3), search(workload="users", axis="concurrency", highest="8", requests=3))


def envelope(stage_id: str = "chat/search-02/r1", *, sequence: int = 3, ends_search: str | None = None) -> Envelope:
    return sealed()[0].model_copy(update={"stage_id": stage_id, "sequence": sequence, "ends_search": ends_search})


@pytest.mark.parametrize(
    ("stage_id", "ends_search"),
    [("chat/search-01/r1", None), ("chat/search-15/r3", "chat"), ("users/search-02/r1", "users")],
)
def test_a_searchable_load_is_accepted(stage_id: str, ends_search: str | None) -> None:
    assert problem_with(envelope(stage_id, ends_search=ends_search), LISTED, SEARCHES) is None


@pytest.mark.parametrize(
    ("why", "forged"),
    [
        ("at most 92 stages", envelope(sequence=92)),
        ("of no search", envelope("other/search-01/r1")),
        ("of no search", envelope("chat/rate=2/r1")),
        ("of no search", envelope("chat/search-1/r1")),
        ("of no search", envelope("chat/search-01/r1\n")),
        ("beyond 15 probes", envelope("chat/search-16/r1")),
        ("beyond 15 probes", envelope("chat/search-00/r1")),
        ("beyond 15 probes of 3 stages", envelope("chat/search-01/r4")),
        ("can't end the search of 'users'", envelope(ends_search="users")),
    ],
)
def test_an_invalid_choice_is_rejected(why: str, forged: Envelope) -> None:
    problem = problem_with(forged, LISTED, SEARCHES)
    assert problem is not None
    assert why in problem


def test_a_plan_without_searches_has_its_stages_and_no_more() -> None:
    assert problem_with(envelope(sequence=2), LISTED, ()) == "the plan has 2 stages"


# ---- through the line to the client -------------------------------------------------------------------------------------


def sent(stage_id: str, sequence: int, *, ends: bool = False) -> Sealed:
    return sealed(sequence, stage_id=stage_id, probe=Probe(value="2", ends_search=ends))


async def pulled(*records: Sealed) -> Pulled:
    link = linked(Says(delivery(*records)), stage_ids=("chat/concurrency=2/r1",), searches=SEARCHES[:1])
    return await link.pull(from_sequence=0, seen_version=-1)


async def test_an_envelope_tells_whether_its_search_ended() -> None:
    came = await pulled(sent("chat/search-01/r1", 1), sent("chat/search-02/r1", 2, ends=True))
    assert [(a.sequence, a.ends_search) for a in came.arrivals] == [(1, None), (2, "chat")]


async def test_a_forged_stage_is_rejected_and_the_others_are_taken() -> None:
    came = await pulled(sent("other/search-01/r1", 1), sent("chat/search-02/r1", 2))
    assert [a.sequence for a in came.arrivals] == [2]
    assert came.refused == ("record 1: stage 'other/search-01/r1' is of no search of the plan",)
