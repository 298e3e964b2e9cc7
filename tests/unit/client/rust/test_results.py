"""From the Rust client's result to an outcome in order of sending."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun_client.contract import LoadPoint
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Load
from benchrun_client.failures import RunFailure
from benchrun_client.rust.child import Reading
from benchrun_client.rust.results import outcome_of, toll_of
from benchrun_client.tokenizer import Api

BEGAN = 100.0


def load(*, api: Api = "Completions") -> Load:
    samples = [Sample("one", 11, 3), Sample("two", 22, 2), Sample("three", 33, 1)]
    return Load(samples=samples, seed=1, point=LoadPoint(max_concurrency=2), api=api, ignore_eos=True)


def told(**changes: Any) -> dict[str, Any]:
    """Three answers as the program tells them, the second sent first."""
    return {
        "duration": 2.0,
        "total_input_tokens": 3,
        "total_output_tokens": 6,
        "start_times": [0.5, 0.25, 0.75],
        "ttfts": [0.1, 0.2, 0.3],
        "itls": [[0.01, 0.02], [0.04], []],
        "output_lens": [3, 2, 1],
        "errors": ["", "", ""],
        "generated_texts": ["a b c", "d e", "f"],
        "steady_state": None,
        **changes,
    }


def test_requests_come_in_order_of_sending_each_with_what_was_asked_of_it() -> None:
    outcome = outcome_of(told(), load(), began=BEGAN)
    assert outcome.instants.sent == [100.25, 100.5, 100.75]
    assert outcome.instants.answered == pytest.approx([100.49, 100.63, 101.05])
    assert outcome.result["ttfts"] == [0.2, 0.1, 0.3]
    assert outcome.result["itls"] == [[0.04], [0.01, 0.02], []]
    assert outcome.result["output_lens"] == outcome.result["asked_lens"] == [2, 3, 1]
    assert outcome.result["input_lens"] == [22, 11, 33]


def test_when_requests_were_due_nobody_knows() -> None:
    assert outcome_of(told(), load(), began=BEGAN).instants.due == []


def test_prompt_tokens_are_ours_in_its_figures_too() -> None:
    """Its own count is that of the tokenizer it was given to keep it quiet."""
    result = outcome_of(told(errors=["", "HTTP 500", ""]), load(), began=BEGAN).result
    assert (result["total_input_tokens"], result["input_throughput"]) == (44, 22.0)
    assert result["total_token_throughput"] == 25.0


def test_no_texts_are_kept() -> None:
    assert "generated_texts" not in outcome_of(told(), load(), began=BEGAN).result


def test_a_request_with_an_error_failed() -> None:
    outcome = outcome_of(told(errors=["HTTP 500", "", ""]), load(), began=BEGAN)
    assert outcome.instants.ok == [True, False, True]
    assert outcome.result["errors"] == ["", "HTTP 500", ""]


@pytest.mark.parametrize(
    ("known", "api", "changes"),
    [
        pytest.param(True, "Completions", {}, id="as long as asked"),
        pytest.param(True, "Completions", {"output_lens": [7, 2, 1]}, id="not its number of chunks"),
        pytest.param(False, "Completions", {"output_lens": [2, 2, 1], "itls": [[0.1], [0.1], []]}, id="shorter"),
        pytest.param(
            True,
            "Completions",
            {"output_lens": [0, 2, 1], "itls": [[0.1], [0.1], []], "errors": ["HTTP 500", "", ""]},
            id="a failed one may be anything",
        ),
        pytest.param(True, "Chat", {"itls": [[0.1] * 3, [0.1] * 2, [0.1]]}, id="a chat begins with a chunk of its own"),
        pytest.param(False, "Chat", {}, id="a chat with a chunk too few"),
    ],
)
def test_answers_have_ended_where_that_can_be_told(known: bool, api: Api, changes: dict[str, Any]) -> None:
    outcome = outcome_of(told(**changes), load(api=api), began=BEGAN)
    assert outcome.instants.ended == (outcome.instants.ok if known else [])


def test_a_result_of_other_requests_is_refused() -> None:
    with pytest.raises(RunFailure, match="another number of requests than the 3"):
        outcome_of(told(ttfts=[0.1]), load(), began=BEGAN)
    with pytest.raises(RunFailure):
        outcome_of({"duration": 1.0}, load(), began=BEGAN)


def reading(at: float, cpu: float, throttled: int | None = 0) -> Reading:
    return Reading(at, cpu, throttled)


def test_what_it_cost_is_what_it_used_from_the_first_send_to_the_last_answer() -> None:
    readings = [
        reading(9.9, 0.5),
        reading(10.0, 1.0),
        reading(11.0, 2.0, 3),
        reading(12.0, 2.5, 4),
        reading(13.0, 9.0, 9),
    ]
    toll = toll_of(readings, first=10.5, last=11.5, threads=4)
    assert (toll.cpu_seconds, toll.wall_seconds, toll.throttled_periods) == (1.5, 2.0, 4)
    assert (toll.processes, toll.lags) == (4, [])


def test_a_load_shorter_than_any_reading_costs_what_the_readings_around_it_say() -> None:
    toll = toll_of([reading(10.0, 1.0, None)], first=10.1, last=10.2, threads=1)
    assert (toll.cpu_seconds, toll.wall_seconds, toll.throttled_periods) == (0.0, 0.0, None)


def test_of_a_program_that_ended_at_once_nothing_is_known() -> None:
    toll = toll_of([], first=10.1, last=10.2, threads=1)
    assert (toll.cpu_seconds, toll.wall_seconds, toll.throttled_periods) == (0.0, 0.0, None)
