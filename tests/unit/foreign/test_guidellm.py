"""Files of `guidellm run`: their figures, what rules say of them, and hostile ones."""

from typing import Any

import pytest
from benchrun.foreign.document import Unreadable
from benchrun.judge.rules.inputs import Input
from benchrun_client.contract import AtOnceLoad, RateLoad, UsersLoad
from unit.foreign.foreign_files import Change, answers, judge, read, text_of

NAME = "guidellm-0.8.1-concurrency-4.json"


def stages(change: Change | None = None) -> Any:
    """Return what is read of the file, or of one with a change of its benchmark."""
    return read(
        "guidellm",
        file=text_of(
            NAME,
            None
            if change is None
            else lambda content: change(content["benchmarks"][0]),
        ),
    )


def strategy(**fields: Any) -> Change:
    """Return a change of how requests were to arrive."""
    return lambda benchmark: benchmark["config"].update(strategy=fields)


def requests(benchmark: dict[str, Any]) -> Any:
    """Return the answered requests, in order of sending."""
    return sorted(
        benchmark["requests"]["successful"],
        key=lambda each: each["info"]["timings"]["request_start"],
    )


def test_figures_are_those_of_the_tool() -> None:
    (stage,) = stages()
    figures = {each.theirs: each for each in stage.figures}
    ttft = figures["time_to_first_token_ms.mean"]
    assert (ttft.value, ttft.ours) == (
        pytest.approx(119.748, abs=1e-3),
        "mean_ttft_ms",
    )
    rate = figures["requests_per_second.mean"]
    assert (rate.value, rate.ours) == (
        pytest.approx(11.636, abs=1e-3),
        "request_throughput",
    )
    assert figures["time_to_first_token_ms.p99"].ours is None
    assert (stage.version, stage.model) == ("0.8.1", "tiny")
    assert (stage.answered, stage.failed, len(stage.requests.ok)) == (30, 0, 30)
    assert stage.load == UsersLoad(concurrency=4, start="Together")


@pytest.mark.parametrize(
    "name",
    ["inter_token_latency_ms", "time_per_output_token_ms", "request_latency"],
)
def test_what_has_another_definition_is_refused_with_the_reason(name: str) -> None:
    (stage,) = stages()
    (definition,) = [each for each in stage.definitions if each.theirs == name]
    assert definition.ours is None
    assert definition.note


def test_the_mean_of_requests_is_the_figure_of_the_tool() -> None:
    (stage,) = stages()
    ttft_us = stage.requests.ttft_us
    assert sum(ttft_us) / len(ttft_us) / 1000 == pytest.approx(119.748, abs=1e-2)


def test_rules_answer_found_not_found_and_cannot_be_known() -> None:
    found = answers(judge(stages()))
    assert found["ConcurrencyNotReached"].severity == "Suspect"
    assert "2.31 requests" in found["ConcurrencyNotReached"].sentence
    assert found["ColdStart"].answer == "NotFound"
    gaps = found["ChunksAreNotTokens"]
    assert (gaps.answer, list(gaps.needed or ())) == ("CannotBeKnown", [Input.GAPS])


def test_lengths_that_were_asked_for_are_compared() -> None:
    def short(benchmark: dict[str, Any]) -> None:
        for each in benchmark["requests"]["successful"]:
            each["output_tokens"] = 15

    assert answers(judge(stages(short)))["OutputTooShort"].severity == "Invalid"


def test_lengths_with_a_spread_are_not_known() -> None:
    def spread(content: dict[str, Any]) -> None:
        content["config"]["spec"]["data"][0]["output_tokens_stdev"] = 4

    found = answers(judge(read("guidellm", file=text_of(NAME, spread))))
    assert Input.ASKED_TOKENS in (found["OutputTooShort"].needed or {})


def test_failures_and_rejections_are_found() -> None:
    def failing(benchmark: dict[str, Any]) -> None:
        lists = benchmark["requests"]
        failed = lists["successful"].pop()
        failed["info"]["error"] = "Client error '429 Too Many Requests' for url 'x'"
        lists["errored"] = [failed]
        benchmark["metrics"]["request_totals"] = {"successful": 29, "errored": 1}

    found = answers(judge(stages(failing)))
    assert "1 of 30" in found["RequestsFailed"].sentence
    assert found["RequestsRejected"].answer == "Found"


def test_what_was_sent_after_a_request_that_was_cut_off_is_left_out() -> None:
    def cut(benchmark: dict[str, Any]) -> None:
        twentieth = requests(benchmark)[20]
        benchmark["requests"]["successful"].remove(twentieth)
        benchmark["requests"]["incomplete"] = [twentieth]
        benchmark["metrics"]["request_totals"]["successful"] = 29

    (stage,) = stages(cut)
    assert (stage.answered, len(stage.requests.ok)) == (29, 20)


@pytest.mark.parametrize(
    ("change", "load"),
    [
        (strategy(type_="synchronous"), UsersLoad(concurrency=1, start="Together")),
        (strategy(type_="throughput"), AtOnceLoad()),
        (
            strategy(type_="throughput", max_concurrency=8),
            UsersLoad(concurrency=8, start="Together"),
        ),
        (
            strategy(type_="poisson", rate=2.5),
            RateLoad(requests_per_second="2.5"),
        ),
        (
            strategy(type_="constant", rate=3),
            RateLoad(requests_per_second="3", burstiness="1000"),
        ),
        (strategy(type_="replay"), None),
    ],
    ids=["one", "throughput", "capped", "poisson", "constant", "replay"],
)
def test_a_strategy_is_a_load(change: Change, load: object) -> None:
    (stage,) = stages(change)
    assert stage.load == load
    assert bool(stage.load_unknown) == (load is None)


HOSTILE: dict[str, tuple[Change, str]] = {
    "no metrics": (lambda b: b.pop("metrics"), "benchmarks[0].metrics"),
    "no users": (
        strategy(type_="concurrent", streams=0),
        "benchmarks[0].config.strategy.streams",
    ),
    "no rate": (strategy(type_="poisson"), "benchmarks[0].config.strategy.rate"),
    "a token before its request": (
        lambda b: requests(b)[0]["info"]["timings"].update(
            first_token_iteration=1.0
        ),
        "first_token_iteration",
    ),
    "an answer without a token": (
        lambda b: requests(b)[0]["info"]["timings"].pop("first_token_iteration"),
        "first_token_iteration",
    ),
    "a text for tokens": (
        lambda b: requests(b)[0].update(output_tokens="20"),
        "output_tokens",
    ),
    "a list for an object": (lambda b: b.update(config=[]), "benchmarks[0].config"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_file_key_and_remedy(name: str) -> None:
    change, key = HOSTILE[name]
    with pytest.raises(Unreadable) as error:
        judge(stages(change))
    words = str(error.value)
    assert words.startswith("file: benchmarks[0]")
    assert key in words
    assert "guidellm run --output kind=json" in words


def test_many_files_of_one_long_folder_are_told_apart() -> None:
    text = text_of(
        NAME, lambda content: strategy(type_="sweep")(content["benchmarks"][0])
    )
    folder = "/results" * 20
    found = judge(
        read("guidellm", **{f"{folder}/{n}.json": text for n in range(50)})
    )
    ids = [each.id for each in found.load_points]
    assert len(set(ids)) == 50
    assert max(map(len, ids)) <= 130
