"""Files of `vllm bench serve`: their figures, what rules say of them, and hostile ones."""

from typing import Any

import pytest
from benchrun.api import Code
from benchrun.foreign.document import MAX_NESTED, Unreadable
from benchrun.judge.rules.inputs import Input
from benchrun_client.contract import RateLoad, UsersLoad
from unit.foreign.foreign_files import Change, answers, judge, read, text_of

NAME = "vllm-0.32-concurrency-4.json"
COLUMNS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "latencies",
    "start_times",
    "queue_times",
    "generated_texts",
    "errors",
)


def stages(change: Change | None = None) -> Any:
    """Return what is read of the file, or of a changed one."""
    return read("vllm", file=text_of(NAME, change))


def summary_only(content: dict[str, Any]) -> None:
    """Leave out what only `--save-detailed` writes."""
    for column in COLUMNS:
        del content[column]


def failing(content: dict[str, Any]) -> None:
    """Let the first three requests be refused, as the tool writes it."""
    for place in range(3):
        content["errors"][place] = "Too Many Requests"
        content["latencies"][place] = content["ttfts"][place] = 0.0
        content["output_lens"][place] = 0
        content["itls"][place] = []
    content |= {"completed": 57, "failed": 3}


def test_figures_are_those_of_the_tool() -> None:
    (stage,) = stages()
    figures = {each.theirs: each.value for each in stage.figures}
    assert figures["p99_ttft_ms"] == pytest.approx(89.9035, abs=1e-3)
    assert figures["request_throughput"] == pytest.approx(32.0397, abs=1e-3)
    assert {each.ours for each in stage.figures} == set(figures)
    assert stage.load == UsersLoad(concurrency=4, start="Together")
    assert (stage.answered, stage.failed, stage.model) == (60, 0, "tiny")


def test_the_steady_part_and_its_intervals_come_from_the_requests() -> None:
    (load_point,) = judge(stages()).load_points
    assert load_point.steady["sent"] == 40
    assert load_point.steady["p50_ttft_ms"] == pytest.approx(61.544)
    low, high = load_point.intervals["p50_ttft_ms"]
    assert low < 61.544 < high


def test_rules_answer_found_not_found_and_cannot_be_known() -> None:
    found = answers(judge(stages(failing)))
    assert set(found) == set(Code) - {Code.NOT_CHECKED, Code.USER_RULE}
    assert found["RequestsFailed"].severity == "Invalid"
    assert "3 of 60" in found["RequestsFailed"].sentence
    assert found["RequestsRejected"].answer == "Found"
    assert found["RateNotAchieved"].answer == "NotFound"
    unknown = found["ForeignTraffic"]
    assert unknown.answer == "CannotBeKnown"
    assert list(unknown.needed or ()) == [Input.SERVER_COUNTERS]


def test_a_load_point_is_not_valid_where_rules_could_not_be_asked() -> None:
    def long(content: dict[str, Any]) -> None:
        for column in ("ttfts", "latencies", "start_times", "queue_times"):
            content[column] = [7 * each for each in content[column]]

    found = judge(stages(long))
    assert found.verdict == "Unknown"
    assert judge(stages(failing)).verdict == "Invalid"


def test_without_requests_the_remedy_is_to_save_them() -> None:
    (load_point,) = judge(stages(summary_only)).load_points
    found = {each.code.value: each for each in load_point.answers}
    assert found["RequestsFailed"].answer == "NotFound"
    assert found["AllAtOnce"].answer == "NotFound"
    needed = found["NotSteadyState"].needed or {}
    assert "--save-detailed" in needed[Input.TIMES]
    assert (load_point.steady, load_point.intervals) == ({}, {})
    assert load_point.verdict == "Unknown"  # Nothing was found in zeros.
    assert {each.answer for each in load_point.answers} == {
        "NotFound",
        "CannotBeKnown",
    }


def test_repeats_are_judged_together() -> None:
    alone = answers(judge(stages()))["RepeatsDisagree"]
    both = judge(read("vllm", one=text_of(NAME), two=text_of(NAME)))
    assert alone.answer == "CannotBeKnown"
    assert list(alone.needed or ()) == [Input.REPEATS]
    assert answers(both)["RepeatsDisagree"].answer == "NotFound"


def test_repeats_that_disagree_are_found() -> None:
    def slower(content: dict[str, Any]) -> None:
        for column in ("ttfts", "latencies", "start_times"):
            content[column] = [3 * each for each in content[column]]

    both = judge(read("vllm", one=text_of(NAME), two=text_of(NAME, slower)))
    assert answers(both)["RepeatsDisagree"].severity == "Suspect"


def test_a_cause_that_the_rule_itself_lacks_is_told() -> None:
    def few(content: dict[str, Any]) -> None:
        for column in COLUMNS:
            content[column] = content[column][:8]
        content |= {"num_prompts": 8, "completed": 8}

    found = answers(judge(stages(few)))["ColdStart"]
    assert (found.answer, found.needed) == ("CannotBeKnown", None)
    assert "20" in found.sentence


def test_a_finding_holds_without_what_only_its_absence_needs() -> None:
    def grows(content: dict[str, Any]) -> None:
        rows = len(content["ttfts"])
        content |= {"request_rate": 20.0, "max_concurrency": None}
        content["start_times"] = [place / 20 for place in range(rows)]
        content["latencies"] = [0.1 + place / 30 for place in range(rows)]
        content["ttfts"] = [0.09 + place / 30 for place in range(rows)]
        del content["itls"]

    found = answers(judge(stages(grows)))["NotSteadyState"]
    assert (found.answer, found.severity) == ("Found", "Suspect")

    def calm(content: dict[str, Any]) -> None:
        del content["itls"]

    unknown = answers(judge(stages(calm)))["NotSteadyState"]
    assert unknown.answer == "CannotBeKnown"
    assert list(unknown.needed or ()) == [Input.GAPS]


def test_a_chat_has_another_ttft() -> None:
    (stage,) = stages(lambda content: content.update(backend="openai-chat"))
    ours = {each.theirs: each.ours for each in stage.definitions}
    assert ours["ttft"] is None
    assert ours["e2el"] == "e2el"
    figures = {each.theirs: each.ours for each in stage.figures}
    assert figures["p99_ttft_ms"] is None


def test_a_chat_at_a_rate_as_the_tool_wrote_it() -> None:
    (stage,) = read("vllm", file=text_of("vllm-0.32-chat-rate-8.json"))
    assert stage.load == RateLoad(requests_per_second="8")
    figures = {each.theirs: each.ours for each in stage.figures}
    assert (figures["mean_ttft_ms"], figures["request_throughput"]) == (
        None,
        "request_throughput",
    )
    judged = judge([stage])
    steady = judged.load_points[0].steady
    assert "p50_e2el_ms" in steady
    assert not [key for key in steady if "ttft" in key or "tpot" in key]
    found = answers(judged)
    assert found["QueueWaitHidden"].answer == "NotFound"
    assert found["RateNotAchieved"].answer != "CannotBeKnown"


def test_a_backend_that_is_not_known_is_refused() -> None:
    (stage,) = stages(lambda content: content.update(backend="tensorrt-llm"))
    latencies = [each for each in stage.definitions if each.theirs != "throughput"]
    assert [each.ours for each in latencies] == [None] * 4


def test_a_rate_is_a_load() -> None:
    (stage,) = stages(
        lambda content: content.update(request_rate=8.0, burstiness=0.5)
    )
    assert stage.load == RateLoad(
        requests_per_second="8", burstiness="0.5", max_concurrency=4
    )


def test_a_ramp_has_no_load() -> None:
    (stage,) = stages(
        lambda content: content.update(rps_change_events=[{"rps": 1}])
    )
    assert stage.load is None
    assert answers(judge([stage]))["RateNotAchieved"].answer == "CannotBeKnown"


HOSTILE: dict[str, tuple[Change, str]] = {
    "a text for a number": (lambda c: c.update(duration="long"), "duration"),
    "infinite": (lambda c: c.update(duration=float("inf")), "duration"),
    "not a number": (lambda c: c.update(duration=float("nan")), "duration"),
    "no backend": (lambda c: c.pop("backend"), "backend"),
    "an object for a column": (lambda c: c.update(ttfts={}), "ttfts"),
    "a short column": (lambda c: c["ttfts"].pop(), "ttfts"),
    "a negative time": (lambda c: c["ttfts"].__setitem__(7, -1), "ttfts[7]"),
    "half a token": (
        lambda c: c["output_lens"].__setitem__(0, 1.5),
        "output_lens[0]",
    ),
    "more answers than requests": (lambda c: c.update(completed=61), "errors"),
    "no users": (lambda c: c.update(max_concurrency=0), "max_concurrency"),
    "too many requests": (lambda c: c.update(num_prompts=10**9), "num_prompts"),
    "a rate of zero": (lambda c: c.update(request_rate=0), "request_rate"),
    "a truth value": (lambda c: c.update(completed=True), "completed"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_file_key_and_remedy(name: str) -> None:
    change, key = HOSTILE[name]
    with pytest.raises(Unreadable) as error:
        judge(stages(change))
    words = str(error.value)
    assert words.startswith(f"file: {key} ")
    assert "--save-detailed" in words
    assert len(words) < 300


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not JSON",
        b"[" * 100_000,
        b"[" * (MAX_NESTED + 1),
        b"[]",
        b"7",
        b'{"completed": 1}\n{"completed"',
    ],
    ids=["empty", "text", "deep", "many", "list", "number", "cut off"],
)
def test_what_is_no_result_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match=r"^file: .*--save-detailed"):
        read("vllm", file=data)


def test_control_characters_are_not_shown() -> None:
    (stage,) = stages(lambda content: content.update(model_id="a\x1b[31mb\n"))
    assert stage.model == "a [31mb "
