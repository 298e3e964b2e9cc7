"""Files of `inference-perf`: their figures, what rules say of them, and hostile ones."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from benchrun.foreign.document import Unreadable
from benchrun.judge.rules.inputs import Input
from benchrun_client.contract import RateLoad, UsersLoad
from unit.foreign.foreign_files import Change, answers, judge, read, text_of

FOLDER = "inference-perf-0.7.0-poisson"
STAGES = tuple(f"{FOLDER}/stage_{each}_lifecycle_metrics.json" for each in (0, 1))
RECORDS = f"{FOLDER}/per_request_lifecycle_metrics.json"
CONFIG = f"{FOLDER}/config.yaml"
USERS = "inference-perf-0.7.0-users_stage_0_lifecycle_metrics.json"
ChangeOfRecords = Callable[[list[Any]], object]


def stages(
    *,
    of_first: Change | None = None,
    of_records: ChangeOfRecords | None = None,
    config: bool = True,
    records: bool = True,
) -> Any:
    """Return what is read of the folder, or of changed and fewer files."""
    files = {STAGES[1]: text_of(STAGES[1]), STAGES[0]: text_of(STAGES[0], of_first)}
    if config:
        files[CONFIG] = text_of(CONFIG)
    if records:
        content = json.loads(text_of(RECORDS))
        if of_records is not None:
            of_records(content)
        files[RECORDS] = json.dumps(content).encode()
    return read("inference-perf", **files)


def in_order(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda each: each["start_time"])


def failing(records: list[Any]) -> None:
    """Let the first three requests be refused, as the tool writes it."""
    for each in in_order(records)[:3]:
        each["error"] = {
            "error_type": "HTTP Error 429",
            "error_msg": "too many requests",
        }
        each["info"]["response_metrics"] = None


def test_figures_are_those_of_the_tool_in_our_units() -> None:
    first, second = stages()
    figures = {each.theirs: each for each in first.figures}
    told = json.loads(text_of(STAGES[0]))["successes"]
    ttft = figures["time_to_first_token.p99 (ms)"]
    assert (ttft.value, ttft.ours) == (
        pytest.approx(1000 * told["latency"]["time_to_first_token"]["p99"]),
        "p99_ttft_ms",
    )
    rate = figures["requests_per_sec"]
    assert (rate.value, rate.ours) == (
        told["throughput"]["requests_per_sec"],
        "request_throughput",
    )
    assert (first.answered, first.failed, first.model) == (36, 0, "tiny")
    assert (second.answered, second.failed) == (32, 0)


def test_requests_go_to_their_stage_and_are_those_of_its_figures() -> None:
    for stage in stages():
        ttft_us = stage.requests.ttft_us
        assert len(ttft_us) == stage.answered
        figures = {each.theirs: each.value for each in stage.figures}
        assert sum(ttft_us) / len(ttft_us) / 1000 == pytest.approx(
            figures["time_to_first_token.mean (ms)"]
        )
        assert set(stage.requests.asked_tokens) == {16}
        assert set(stage.requests.output_tokens) == {16}


@pytest.mark.parametrize(
    "name",
    [
        "inter_token_latency",
        "request_latency",
        "normalized_time_per_output_token",
        "time_per_output_token",
        "output_tokens_per_sec",
    ],
)
def test_what_has_another_definition_is_refused_with_the_reason(name: str) -> None:
    first, _ = stages()
    (definition,) = [each for each in first.definitions if each.theirs == name]
    assert definition.ours is None
    assert definition.note


def test_a_rate_is_a_load_where_its_spacing_is_known() -> None:
    first, second = stages()
    assert first.load == RateLoad(requests_per_second="6")
    assert second.load == RateLoad(requests_per_second="8")
    unknown, _ = stages(config=False)
    assert unknown.load is None
    assert "config.yaml" in unknown.load_unknown


def test_users_are_a_load() -> None:
    (stage,) = read("inference-perf", **{USERS: text_of(USERS)})
    assert stage.load == UsersLoad(concurrency=4, start="Together")


def test_rules_answer_found_not_found_and_cannot_be_known() -> None:
    first, _ = stages(
        of_first=lambda report: report["failures"].update(count=3),
        of_records=failing,
    )
    found = answers(judge([first]))
    assert "3 of 36" in found["RequestsFailed"].sentence
    assert found["RequestsRejected"].answer == "Found"
    assert found["AllRequestsFailed"].answer == "NotFound"
    unknown = found["ForeignTraffic"]
    assert unknown.answer == "CannotBeKnown"
    assert list(unknown.needed or ()) == [Input.SERVER_COUNTERS]


def test_without_requests_the_remedy_is_to_give_them() -> None:
    first, _ = stages(records=False)
    assert first.requests is None
    needed = answers(judge([first]))["NotSteadyState"].needed or {}
    assert "per_request_lifecycle_metrics.json" in needed[Input.TIMES]


def test_records_of_stages_that_were_not_given_are_left_out() -> None:
    files = {name: text_of(name) for name in (STAGES[0], RECORDS, CONFIG)}
    (stage,) = read("inference-perf", **files)
    assert stage.requests is None


def test_answers_that_were_not_streamed_have_no_times() -> None:
    def whole(records: list[Any]) -> None:
        for each in records:
            each["info"]["response_metrics"] = {"output_tokens": 16}

    first, _ = stages(of_records=whole)
    assert first.requests is None


def test_failures_without_records_have_their_errors() -> None:
    def labelled(report: dict[str, Any]) -> None:
        report["failures"] = {
            "count": 3,
            "by_label": {"429 - Rate Limit": {"count": 3, "messages": []}},
        }

    first, _ = stages(of_first=labelled, records=False)
    assert answers(judge([first]))["RequestsRejected"].answer == "Found"


def broken(change: ChangeOfRecords) -> Callable[[], Any]:
    return lambda: stages(of_records=change)


HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "no successes": (
        lambda: stages(of_first=lambda report: report.pop("successes")),
        "successes",
    ),
    "a token before its request": (
        broken(
            lambda records: records[0]["info"]["response_metrics"].update(
                output_token_times=[1.0]
            )
        ),
        "output_token_times[0]",
    ),
    "an end before its beginning": (
        broken(lambda records: records[0].update(end_time=0.0)),
        "end_time",
    ),
    "a text for an instant": (
        broken(lambda records: records[0].update(start_time="now")),
        "start_time",
    ),
    "no users": (
        lambda: stages(
            of_first=lambda report: report["load_summary"].update(concurrency=0)
        ),
        "load_summary.concurrency",
    ),
    "no rate": (
        lambda: stages(
            of_first=lambda report: report["load_summary"].update(requested_rate=0)
        ),
        "load_summary.requested_rate",
    ),
    "no report": (
        lambda: read("inference-perf", **{CONFIG: text_of(CONFIG)}),
        "is no report of a stage",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_file_key_and_remedy(name: str) -> None:
    act, key = HOSTILE[name]
    with pytest.raises(Unreadable) as error:
        act()
    words = str(error.value)
    assert key in words
    assert "give the folder of inference-perf" in words


@pytest.mark.parametrize(
    "request_body",
    [
        "not JSON",
        "[]",
        '{"max_tokens": 16}',
        '{"max_tokens": "x", "ignore_eos": 1}',
    ],
)
def test_what_a_request_asked_for_may_be_unknown(request_body: str) -> None:
    def asking(records: list[Any]) -> None:
        for each in records:
            each["request"] = request_body

    first, _ = stages(of_records=asking)
    assert first.requests.asked_tokens is None
