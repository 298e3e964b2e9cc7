"""Benchmark reports of llm-d: their figures by the tool that measured, and hostile ones."""

import json
from typing import Any

import pytest
import yaml
from benchrun.foreign.document import Unreadable
from benchrun.judge.rules.inputs import Input
from benchrun_client.contract import RateLoad, UsersLoad
from unit.foreign.foreign_files import Change, answers, judge, read, text_of

OF_VLLM = "llm-d-0.2.1-of-vllm-0.32-concurrency-4.yaml"
OF_AIPERF = "llm-d-0.2-of-aiperf-0.13.0-concurrency-4.yaml"


def stages(change: Change | None = None, name: str = OF_VLLM) -> Any:
    """Return what is read of a report, or of a changed one."""
    if change is None:
        return read("llm-d", **{name: text_of(name)})
    content = yaml.safe_load(text_of(name))
    change(content)
    return read("llm-d", file=json.dumps(content).encode())


def measured_by(tool: str, **native: Any) -> Change:
    """Return a change of the tool that measured, with what the report has of its own."""

    def changed(report: dict[str, Any]) -> None:
        load = report["scenario"]["load"]
        load["standardized"]["tool"] = tool
        load["native"] = native

    return changed


def asked(**fields: Any) -> Change:
    """Return a change of the load that was asked for."""
    return lambda report: report["scenario"]["load"]["standardized"].update(fields)


def sent(report: dict[str, Any]) -> Any:
    return report["results"]["request_performance"]["aggregate"]


def test_figures_are_those_of_the_report_in_our_units() -> None:
    (stage,) = stages(measured_by("vllm-benchmark", args={"backend": "openai"}))
    figures = {each.theirs: each for each in stage.figures}
    ttft = figures["time_to_first_token.p99 (ms)"]
    assert (ttft.value, ttft.ours) == (
        pytest.approx(89.9035, abs=1e-3),
        "p99_ttft_ms",
    )
    rate = figures["request_rate"]
    assert (rate.value, rate.ours) == (
        pytest.approx(32.0397, abs=1e-3),
        "request_throughput",
    )
    assert stage.load == UsersLoad(concurrency=4, start="Together")
    assert (stage.answered, stage.failed, stage.requests) == (60, 0, None)


def test_without_its_back_end_vllms_latencies_are_refused() -> None:
    (stage,) = stages()
    ours = {each.theirs: each.ours for each in stage.definitions}
    assert ours["time_to_first_token"] is None
    assert ours["request_rate"] == "request_throughput"


def test_seconds_become_milliseconds() -> None:
    (stage,) = stages(name=OF_AIPERF)
    figures = {each.theirs: each for each in stage.figures}
    ttft = figures["time_to_first_token.p99 (ms)"]
    assert (ttft.value, ttft.ours) == (
        pytest.approx(731.199, abs=1e-3),
        "p99_ttft_ms",
    )
    assert figures["inter_token_latency.mean (ms)"].ours is None


def test_what_aiperf_counts_as_failures_are_kinds_of_errors() -> None:
    def failing(report: dict[str, Any]) -> None:
        sent(report)["requests"]["failures"] = 2

    (stage,) = stages(failing, name=OF_AIPERF)
    assert (stage.answered, stage.failed) == (40, 2)
    (noted,) = [each for each in stage.definitions if each.theirs == "failures"]
    assert noted.ours is None


@pytest.mark.parametrize(
    ("tool", "ours"),
    [
        ("guidellm", {"mean": "mean_ttft_ms", "p99": None}),
        ("inference-perf", {"mean": "mean_ttft_ms", "p99": "p99_ttft_ms"}),
        ("inferencemax", {"mean": None, "p99": None}),
    ],
)
def test_a_figure_means_what_its_tool_means(
    tool: str, ours: dict[str, str | None]
) -> None:
    (stage,) = stages(measured_by(tool))
    figures = {each.theirs: each.ours for each in stage.figures}
    assert {
        statistic: figures[f"time_to_first_token.{statistic} (ms)"]
        for statistic in ours
    } == ours


def test_rules_answer_found_not_found_and_cannot_be_known() -> None:
    def failing(report: dict[str, Any]) -> None:
        sent(report)["requests"]["failures"] = 3

    found = answers(judge(stages(failing)))
    assert "3 of 60" in found["RequestsFailed"].sentence
    assert found["RequestsFailed"].severity == "Invalid"
    assert found["AllAtOnce"].answer == "NotFound"
    needed = found["NotSteadyState"].needed or {}
    assert "the tool itself" in needed[Input.TIMES]
    assert judge(stages()).verdict == "Unknown"


@pytest.mark.parametrize(
    ("tool", "native", "load"),
    [
        ("vllm-benchmark", {}, None),
        (
            "vllm-benchmark",
            {"args": {"burstiness": "0.5"}},
            RateLoad(requests_per_second="8", burstiness="0.5"),
        ),
        (
            "inference-perf",
            {"config": {"load": {"type": "poisson"}}},
            RateLoad(requests_per_second="8"),
        ),
        (
            "inference-perf",
            {"config": {"load": {"type": "constant"}}},
            RateLoad(requests_per_second="8", burstiness="1000"),
        ),
        ("guidellm", {}, None),
    ],
    ids=["no arguments", "vllm", "poisson", "constant", "guidellm"],
)
def test_a_rate_is_a_load_where_its_spacing_is_known(
    tool: str, native: dict[str, Any], load: object
) -> None:
    def rate(report: dict[str, Any]) -> None:
        measured_by(tool, **native)(report)
        asked(rate_qps=8.0, concurrency=None)(report)

    (stage,) = stages(rate)
    assert stage.load == load
    assert bool(stage.load_unknown) == (load is None)


def test_a_duration_is_seconds() -> None:
    def lasting(report: dict[str, Any]) -> None:
        report["run"]["time"]["duration"] = "PT1M49.5S"

    (stage,) = stages(lasting)
    assert stage.seconds == pytest.approx(109.5)


HOSTILE: dict[str, tuple[Change, str]] = {
    "another version": (lambda r: r.update(version="0.1"), "version"),
    "no results": (lambda r: r.pop("results"), "results"),
    "a text for a count": (
        lambda r: sent(r)["requests"].update(total="many"),
        "requests.total",
    ),
    "half a user": (asked(concurrency=1.5), "concurrency"),
    "a duration of words": (
        lambda r: r["run"]["time"].update(duration="long"),
        "run.time.duration",
    ),
    "no unit": (
        lambda r: sent(r)["latency"]["request_latency"].pop("units"),
        "request_latency.units",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_report_is_refused_with_file_key_and_remedy(name: str) -> None:
    change, key = HOSTILE[name]
    with pytest.raises(Unreadable) as error:
        judge(stages(change))
    words = str(error.value)
    assert key in words
    assert "llm-d-benchmark" in words


@pytest.mark.parametrize(
    "data",
    [
        b"a: &a [x]\nb: *a",
        b"[" * 100_000,
        b"a: b: c",
        b"x" * (2 * 1024 * 1024 + 1),
        b"\xff\xfe\xff",
    ],
    ids=["alias", "deep", "no YAML", "long", "no text"],
)
def test_yaml_that_no_tool_writes_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="llm-d-benchmark"):
        read("llm-d", **{"report.yaml": data})
