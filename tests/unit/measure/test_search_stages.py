"""Loads that a search chose: those that it may choose are taken, forged ones are not."""

from typing import Any

import pytest
from benchrun.judge_process.judge_job import probe_problem
from benchrun_client.contract import Probe, StageRecord
from hypothesis import given, strategies as st
from unit.client.search.searches import search
from unit.measure.records import record, requests

SEARCHES = (
    search(requests=3),
    search(workload="users", axis="concurrency", highest="8", requests=3),
)


def probed(stage_id: str = "chat/search-02/r1", value: str = "2", **changes: Any) -> StageRecord:
    columns = requests(ttft_us=(1, 1, 1), e2el_us=(2, 2, 2), output_tokens=(2, 2, 2))
    values = {"sequence": 3, "requests": columns, "probe": Probe(value=value, ends_search=False)}
    return record(stage_id, **(values | changes))


@pytest.mark.parametrize(
    ("stage_id", "value"),
    [
        ("chat/search-01/r1", "1"),
        ("chat/search-15/r3", "64"),
        ("chat/search-07/r1", "11.31"),
        ("users/search-02/r1", "8"),
    ],
)
def test_a_searchable_load_is_accepted(stage_id: str, value: str) -> None:
    assert probe_problem(probed(stage_id, value), SEARCHES) is None


@pytest.mark.parametrize(
    ("why", "forged"),
    [
        ("of no search", probed("other/search-01/r1")),
        ("of no search", probed("chat/rate=2/r1")),
        ("does not say its load", probed(probe=None)),
        ("not a load", probed(value="many")),
        ("not a load", probed(value="nan")),
        ("not a load", probed(value="2.0")),
        ("not a load", probed(value="\u0662")),
        # Written out it has a million digits.
        ("not a load", probed(value="1E+999999")),
        # Of a size at which reckoning raises.
        ("not a load", probed(value="1E+999999999999999999")),
        ("not between 1 and 64", probed(value="65")),
        ("not between 1 and 64", probed(value="0.5")),
        ("whole number", probed("users/search-01/r1", "2.5")),
        ("has 2 requests", probed(requests=requests())),
    ],
)
def test_an_invalid_choice_is_rejected(why: str, forged: StageRecord) -> None:
    problem = probe_problem(forged, SEARCHES)
    assert problem is not None
    assert why in problem


def test_a_listed_stage_has_no_load_of_its_own() -> None:
    assert probe_problem(probed("chat/rate=2/r1", probe=None), SEARCHES) is None


@given(
    st.text(max_size=24)
    | st.from_regex(r"-?[0-9]{0,9}(\.[0-9]{0,9})?([eE][+-]?[0-9]{1,9})?", fullmatch=True)
)
def test_no_text_raises(text: str) -> None:
    probe_problem(probed(value=text[:24]), SEARCHES)
