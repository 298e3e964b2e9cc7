"""Records of a search's stages: those that the search may choose are taken, forged ones are not."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.effects.client_link import ClientLink, Pulled
from benchrun.effects.open_stages import problem_with
from benchrun_client.contract import Delivery, Envelope, Plan, Probe, Progress, StageRecord
from unit.client.plans import NONCE, plan, stage
from unit.client.search.searches import search
from unit.measure.records import record, requests

LISTED = 2
SEARCHES = (search(requests=3), search(workload="users", axis="concurrency", highest="8", requests=3))


def probed(stage_id: str = "chat/search-02/r1", value: str = "2", **changes: Any) -> StageRecord:
    columns = requests(ttft_us=(1, 1, 1), e2el_us=(2, 2, 2), output_tokens=(2, 2, 2))
    values = {"sequence": 3, "requests": columns, "probe": Probe(value=value, ends_search=False)}
    return record(stage_id, **(values | changes))


@pytest.mark.parametrize(
    ("stage_id", "value"),
    [
        ("chat/search-01/r1", "1"),
        ("chat/search-12/r3", "64"),
        ("chat/search-07/r2", "11.31"),
        ("users/search-02/r1", "8"),
    ],
)
def test_what_a_search_may_choose_is_taken(stage_id: str, value: str) -> None:
    assert problem_with(probed(stage_id, value), SEARCHES, listed=LISTED) is None


@pytest.mark.parametrize(
    ("why", "forged"),
    [
        ("at most 74 stages", probed(sequence=74)),
        ("of no search", probed("other/search-01/r1")),
        ("of no search", probed("chat/rate=2/r1")),
        ("of no search", probed("chat/search-1/r1")),
        ("beyond 12 probes", probed("chat/search-13/r1")),
        ("beyond 12 probes", probed("chat/search-00/r1")),
        ("beyond 12 probes of 3 stages", probed("chat/search-01/r4")),
        ("does not say its load", probed(probe=None)),
        ("is no load", probed(value="many")),
        ("is no load", probed(value="nan")),
        ("is no load", probed(value="2.0")),
        ("not between 1 and 64", probed(value="65")),
        ("not between 1 and 64", probed(value="0.5")),
        ("no whole number", probed("users/search-01/r1", "2.5")),
        ("has 2 requests, asked for were 3", probed(requests=requests())),
    ],
)
def test_what_it_can_not_choose_is_refused(why: str, forged: StageRecord) -> None:
    problem = problem_with(forged, SEARCHES, listed=LISTED)
    assert problem is not None
    assert why in problem


def test_a_plan_without_searches_has_its_stages_and_no_more() -> None:
    assert problem_with(probed(sequence=2), (), listed=LISTED) == "the plan has 2 stages"


# ---- through the line to the client -------------------------------------------------------------------------------------


class Told:
    """A client that says one thing."""

    def __init__(self, *records: StageRecord) -> None:
        envelopes = tuple(Envelope.seal(each) for each in records)
        self._text = Delivery(
            run_uid=records[0].run_uid, progress=Progress(version=1, phase="Measuring"), records=envelopes
        ).model_dump_json(by_alias=True)

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        return self._text

    async def post(self, url: str, body: str, *, timeout_seconds: float) -> None:
        raise AssertionError("nothing is to be acknowledged")


def searching_plan() -> Plan:
    return plan(stage(), searches=SEARCHES[:1])


def sent(stage_id: str, sequence: int, *, ends: bool = False, **changes: Any) -> StageRecord:
    of: dict[str, Any] = {"run_uid": "run-1", "plan_digest": searching_plan().digest(), "sequence": sequence}
    return probed(stage_id, **{"probe": Probe(value="2", ends_search=ends), **of, **changes})


async def pulled(*records: StageRecord) -> Pulled:
    link = ClientLink(Told(*records), base_url="http://client", nonce=NONCE, plan=searching_plan())
    return await link.pull(from_sequence=0, seen_version=-1)


async def test_a_record_tells_whether_its_search_ended() -> None:
    came = await pulled(sent("chat/search-01/r1", 1), sent("chat/search-02/r1", 2, ends=True))
    assert [(a.sequence, a.ends_search) for a in came.arrivals] == [(1, None), (2, "chat")]


async def test_a_forged_stage_is_refused_and_the_others_are_taken() -> None:
    came = await pulled(sent("other/search-01/r1", 1), sent("chat/search-02/r1", 2))
    assert [a.sequence for a in came.arrivals] == [2]
    assert came.refused == ("record 1: stage other/search-01/r1 is of no search of the plan",)


async def test_a_listed_stage_is_of_no_search() -> None:
    came = await pulled(sent("chat/concurrency=2/r1", 0))
    assert came.refused == ("record 0: it is of no search",)
