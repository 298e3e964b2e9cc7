"""Loads that a search chose: those that it may choose are taken, forged ones are not."""

from typing import Any

import pytest
from benchrun.judge_process.judge_job import load_problem
from benchrun_client.contract import (
    AtOnceLoad,
    Load,
    Probe,
    RateLoad,
    StageRecord,
    UsersLoad,
)
from hypothesis import given, strategies as st
from unit.client.search.searches import search
from unit.measure.records import record, requests

TWO = RateLoad(requests_per_second="2")
SEARCHES = (
    search(requests=3),
    search(workload="users", axis="Concurrency", highest="8", requests=3),
)


def probed(
    stage_id: str = "chat/search-02/r1", load: Load = TWO, **changes: Any
) -> StageRecord:
    columns = requests(
        ttft_us=(1, 1, 1), e2el_us=(2, 2, 2), output_tokens=(2, 2, 2)
    )
    values = {"sequence": 3, "requests": columns, "probe": Probe(ends_search=False)}
    return record(stage_id, load=load, **(values | changes))


def rate(value: str, **changes: Any) -> RateLoad:
    return RateLoad(requests_per_second=value, **changes)


@pytest.mark.parametrize(
    ("stage_id", "load"),
    [
        ("chat/search-01/r1", rate("1")),
        ("chat/search-15/r3", rate("64")),
        ("chat/search-07/r1", rate("11.31")),
        ("users/search-02/r1", UsersLoad(concurrency=8)),
    ],
)
def test_a_searchable_load_is_accepted(stage_id: str, load: Load) -> None:
    assert load_problem(probed(stage_id, load), {}, SEARCHES) is None


@pytest.mark.parametrize(
    ("why", "forged"),
    [
        ("does not belong to a search", probed("other/search-01/r1")),
        ("does not belong to a search", probed("chat/rate=2/r1")),
        ("does not say whether", probed(probe=None)),
        ("not a load of its search", probed(load=rate("2.0"))),
        ("not a load of its search", probed(load=rate("2", burstiness="0.5"))),
        ("not a load of its search", probed(load=rate("2", max_concurrency=4))),
        ("not a load of its search", probed(load=UsersLoad(concurrency=2))),
        ("not a load of its search", probed(load=AtOnceLoad())),
        ("not a load of its search", probed("users/search-01/r1", rate("2"))),
        ("not between 1 and 64", probed(load=rate("65"))),
        ("not between 1 and 64", probed(load=rate("0.5"))),
        ("has 2 requests", probed(requests=requests())),
    ],
)
def test_an_invalid_choice_is_rejected(why: str, forged: StageRecord) -> None:
    problem = load_problem(forged, {}, SEARCHES)
    assert problem is not None
    assert why in problem


def test_a_listed_stage_has_the_load_of_the_plan() -> None:
    listed = probed("chat/rate=2/r1", probe=None)
    assert load_problem(listed, {"chat/rate=2/r1": TWO}, SEARCHES) is None
    another = {"chat/rate=2/r1": rate("2", burstiness="0.5")}
    assert "at another load" in (load_problem(listed, another, SEARCHES) or "")


@given(
    st.text(max_size=24)
    | st.from_regex(
        r"-?[0-9]{0,9}(\.[0-9]{0,9})?([eE][+-]?[0-9]{1,9})?", fullmatch=True
    )
)
def test_no_text_raises_but_one_that_is_no_rate(text: str) -> None:
    try:
        load = rate(text[:24])
    except ValueError:
        return
    load_problem(probed(load=load), {}, SEARCHES)
