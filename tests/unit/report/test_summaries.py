"""A run on half a screen, at its edges: what nobody knows is left out, and nothing is said twice."""

from datetime import timedelta
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Bottleneck,
    Change,
    ClientStatus,
    ComparedCell,
    ComparedRun,
    Comparison,
    Condition,
    Finding,
    ObjectiveResult,
    ServerStatus,
    Truncated,
)
from benchrun.observe import run_of
from benchrun.report.run_summary import Summary, run_summary
from unit.golden_messages import golden
from unit.plan.specs import Json, workload
from unit.report.going_on import BEGIN, ended, run_body, running
from unit.report.statuses import result

NOW = BEGIN + timedelta(hours=5)


def summary(status: BenchmarkRunStatus, **spec: Any) -> Summary:
    body = run_body(status)
    return run_summary(run_of({**body, "spec": {**body["spec"], **spec}}), status, now=NOW)


def fact(name: str, status: BenchmarkRunStatus, **spec: Any) -> str | None:
    return dict(summary(status, **spec).facts).get(name)


def server(**fields: Any) -> BenchmarkRunStatus:
    return ended(servers=[ServerStatus(role="server", **fields)])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"version": "0.32.0"},
        {"gpus": 1},
        {"gpus": 1, "gpu": "H100"},
        {"gpus": 2, "gpu": "H100"},
        {"node": "n1", "gpu": "H100"},
        {"kv_cache_tokens": 0},
        {"seconds_to_ready": 0.0},
        {"seconds_to_ready": 125.2},
        {"restarts": 0},
        {"restarts": 2},
    ],
)
def test_a_server_in_a_line(fields: Json) -> None:
    golden(fact("server", server(**fields)))


def test_the_image_that_really_ran_is_reported_by_its_digest() -> None:
    assert fact("digest", server(image_digest="vllm@sha256:1")) == "vllm@sha256:1"
    assert fact("digest", server()) is None


@pytest.mark.parametrize(
    ("expected", "client"),
    [
        ("vllm 0.32.0", ClientStatus(engine="vllm", engine_version="0.32.0")),
        ("vllm", ClientStatus(engine="vllm")),
        ("vllm 0.32.0, 4 processes", ClientStatus(engine="vllm", engine_version="0.32.0", shards=4)),
        (None, ClientStatus(image="client:1")),
        (None, None),
    ],
)
def test_the_client_is_its_engine(expected: str | None, client: ClientStatus | None) -> None:
    assert fact("client", ended(client=client)) == expected


@pytest.mark.parametrize(
    ("name", "expected", "spec"),
    [
        ("workload", "chat", {"repeats": 1}),
        ("workload", "chat, each load point 2 times", {"repeats": 2}),
        ("workload", "chat", {"repeats": "2x"}),
        ("workloads", "a, b", {"workloads": [workload("a"), workload("b")]}),
        ("arguments", "--seed=1 -x", {"server": {"image": "i", "args": ["--seed=1", "-x"]}}),
        ("arguments", None, {"server": {"image": "i", "args": []}}),
        ("arguments", None, {"server": {"image": "i", "args": "--seed=1"}}),
        ("image", None, {"server": None, "endpoint": {"url": "http://x"}}),
        ("endpoint", "http://x", {"server": None, "endpoint": {"url": "http://x"}}),
        ("endpoint", None, {}),
        ("workload", None, {"workloads": []}),
        ("model", None, {"model": None}),
    ],
)
def test_the_summary_shows_the_requested_load(name: str, expected: str | None, spec: Json) -> None:
    assert fact(name, running(), **spec) == expected


def test_a_run_that_was_not_looked_at_says_so() -> None:
    new = summary(BenchmarkRunStatus())
    assert new.word == "Pending"
    assert "time" not in dict(new.facts)
    assert "stages" not in dict(new.facts)
    golden(new.sentence)


def test_without_a_namespace_none_is_named() -> None:
    body = run_body(ended(log_tail="x", results=[result()]))
    del body["metadata"]["namespace"]
    status = BenchmarkRunStatus.model_validate(body["status"])
    expected = run_summary(run_of(body), status, now=NOW)
    assert (expected.title, expected.look_further) == ("chat", ("benchrun report chat", "benchrun logs chat"))


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ("1 met", ["Met"]),
        ("2 met, 1 missed", ["Missed", "Met", "Met"]),
        ("1 missed, 1 inconclusive", ["Inconclusive", "Missed"]),
        (None, []),
    ],
)
def test_objectives_are_counted(expected: str | None, words: list[str]) -> None:
    objectives = [
        ObjectiveResult.model_validate(
            {"metric": "TTFT", "percentile": "99", "max_milliseconds": 1, "measured_milliseconds": 1, "outcome": word}
        )
        for word in words
    ]
    rows = [result(f"c/rate={n}", axis="rate", objectives=[each]) for n, each in enumerate(objectives)]
    assert fact("objectives", ended(results=rows)) == expected


def compared(*changes: tuple[str, float | None], gate: Any = None) -> BenchmarkRunStatus:
    made = [Change(metric="MeanTTFT", change_percent=percent, word=word) for word, percent in changes]
    cells = [ComparedCell(cell="a", changes=made[:1]), ComparedCell(cell="b", changes=made[1:])]
    return ended(
        comparison=Comparison(baseline=ComparedRun(name="old"), outcome="Mixed", message="m", cells=cells, gate=gate)
    )


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("", ()),
        ("; most: MeanTTFT -12.0 %", (("Better", 3.0), ("Worse", -12.0))),
        ("; most: MeanTTFT +3.0 %", (("Better", 3.0), ("NoDetectableDifference", -12.0))),
        ("", (("NoDetectableDifference", 99.0), ("Unknown", None))),
        ("; most: MeanTTFT +5.0 %", (("Worse", None), ("Worse", 5.0))),
        ("; most: MeanTTFT -", (("Worse", None),)),
    ],
)
def test_the_summary_shows_the_largest_change_with_a_verdict(
    expected: str, changes: tuple[tuple[str, float | None], ...]
) -> None:
    golden(fact("compared", compared(*changes)))


def test_the_summary_shows_the_gate() -> None:
    golden(fact("compared", compared(gate="Regressed")))


def test_a_comparison_shows_before_and_after() -> None:
    waiting = Condition(type="NotRegressed", status="Unknown", reason="Measuring", message="3 repeats find 9.9 %")
    golden(fact("power", ended(conditions=(waiting,))))
    comparison = Comparison(baseline=ComparedRun(name="old"), outcome="Equivalent", message="m", detectable_percent=4.2)
    assert "a change of 4.2 % in" in (fact("power", ended(comparison=comparison)) or "")


def test_lists_that_were_cut_are_reported() -> None:
    cuts = [Truncated(field=name, included=1, total=9) for name in ("results", "timeline")]
    expected = [text for name, text in summary(ended(truncated=cuts)).facts if name == "cut"]
    golden(*expected)


def found(*severities: str) -> BenchmarkRunStatus:
    made = [
        Finding.model_validate({"code": f"Code{n}", "severity": severity, "count": 1, "worst_stage": "s"})
        for n, severity in enumerate(severities)
    ]
    return ended(findings=made)


@pytest.mark.parametrize(
    ("expected", "severities"),
    [
        (None, ()),
        (None, ("Note", "Note")),
        ("Code0", ("Suspect",)),
        ("Code1", ("Note", "Invalid")),
        ("Code0, Code1, Code2, Code3, Code4, Code5", ("Invalid",) * 6),
        ("Code0, Code1, Code2, Code3, Code4, Code5 +2", ("Invalid",) * 8),
    ],
)
def test_findings_are_named_where_one_costs_a_verdict(expected: str | None, severities: tuple[str, ...]) -> None:
    assert fact("findings", found(*severities)) == expected


@pytest.mark.parametrize("limits", [(), (None,), ("None",), (None, "None")])
def test_a_run_that_nothing_limits_has_no_limit(limits: tuple[str | None, ...]) -> None:
    assert fact("limit", ended(results=[limited(limit) for limit in limits])) is None


def test_the_first_limit_is_reported_with_its_load_point() -> None:
    rows = [limited(None), limited("None"), limited("Compute", "a/rate=2"), limited("Client", "a/rate=3")]
    golden(fact("limit", ended(results=rows)))


def limited(limit: str | None, cell: str = "a/rate=1") -> Any:
    bottleneck = (
        Bottleneck.model_validate({"limit": limit, "sentence": f"{limit} it is"}) if limit is not None else None
    )
    return result(cell, axis="rate", bottleneck=bottleneck)
