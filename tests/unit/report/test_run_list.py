"""Runs in a table, and one on half a screen."""

from datetime import timedelta
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Bottleneck,
    Condition,
    Finding,
    Headline,
    ServerStatus,
)
from benchrun.observe import run_of
from benchrun.report.run_list import (
    MAX_CODES,
    finding_codes,
    limit,
    run_list_rows,
    state,
)
from benchrun.report.run_summary import Summary, run_summary
from unit.golden_messages import golden
from unit.plan.specs import Json
from unit.report.going_on import BEGIN, at, ended, run_body, running
from unit.report.statuses import result

WIDE = ("model", "version", "GPU", "image")
NOW = BEGIN + timedelta(hours=5)
HEADLINE = Headline(
    load_point="chat/concurrency=8", throughput="812", p99_ttft="118? ms"
)
SERVER = ServerStatus(
    engine="VLLM",
    role="server",
    version="0.32.0",
    gpus=2,
    gpu="H100",
    node="n1",
    kv_cache_tokens=32_000,
    seconds_to_ready=48.2,
)


def finding(code: str, severity: str) -> Finding:
    where = "chat/concurrency=8/r1"
    return Finding(
        code=code, severity=severity, count=1, worst_stage=where, sentence="It is."
    )


def measured(**changes: Any) -> BenchmarkRunStatus:
    findings = [
        finding("NotChecked", "Note"),
        finding("Drift", "Suspect"),
        finding("ClientSaturated", "Invalid"),
    ]
    known: Json = {
        "headline": HEADLINE,
        "results": [result()],
        "findings": findings,
        "servers": [SERVER],
    }
    return ended("Suspect", **(known | changes))


def row(body: Json, **options: Any) -> dict[str, str]:
    rows = run_list_rows([body], now=NOW, **options)
    return dict(zip(rows.headers, rows.rows[0], strict=True))


def test_the_summary_of_a_finished_run_is_complete() -> None:
    assert row(run_body(measured())) == {
        "run": "chat",
        "state": "Suspect",
        "stages": "4/4",
        "load point": "chat/concurrency=8",
        "tok/s": "812",
        "TTFT p99": "118? ms",
        "limit": "SequenceLimit",
        "findings": "ClientSaturated +1",
        "took": "03:20",
        "age": "5h",
    }


def test_what_a_run_answers_stands_beside_its_state() -> None:
    """Also of a run whose status was written before there was the field."""
    gates = {
        "ObjectivesMet": ("False", "ObjectivesMissed"),
        "NotRegressed": ("True", "NotRegressed"),
    }
    judged = tuple(
        Condition(type=type_, status=value, reason=reason)
        for type_, (value, reason) in gates.items()
    )
    plain = measured()
    answering = measured(conditions=(*plain.conditions, *judged))
    bodies = [run_body(answering, name="gated"), run_body(plain, name="plain")]
    rows = run_list_rows(bodies, now=NOW)
    shown = {
        cells[0]: dict(zip(rows.headers, cells, strict=True)) for cells in rows.rows
    }
    assert rows.headers[:3] == ("run", "state", "answer")
    assert shown["gated"]["answer"] == "Missed, NotRegressed"
    assert shown["plain"]["answer"] == "-"


def test_a_run_that_goes_on_has_no_figures_and_grows() -> None:
    shown = row(run_body(running()))
    assert [shown[name] for name in ("state", "stages", "tok/s", "limit", "findings", "took")] == [
        "Running", "1/4", "-", "-", "-", "5:00:00"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (ended("Valid"), "Valid"),
        (ended("Invalid"), "Invalid"),
        (ended("Cancelled"), "Cancelled"),
        (ended("Failed", verdict="Suspect"), "Failed"),
        (running(phase="WaitingForNode"), "WaitingForNode"),
    ],
)
def test_a_state_is_how_it_came_out_or_where_it_is(
    status: BenchmarkRunStatus, state: str
) -> None:
    assert row(run_body(status))["state"] == state
    assert summary(status).word == state


def test_an_unseen_object_is_pending() -> None:
    shown = row({**run_body(running()), "status": {"observedGeneration": -1}})
    assert (shown["state"], shown["stages"], shown["took"], shown["age"]) == (
        "Pending",
        "-",
        "-",
        "5h",
    )


def test_many_findings_are_counted() -> None:
    many = [
        finding(code, "Suspect")
        for code in ("Drift", "ColdStart", "Preempted", "AllAtOnce")
    ]
    assert row(run_body(measured(findings=many)))["findings"] == "Drift +3"


def test_wide_adds_model_and_server_and_many_namespaces_are_named() -> None:
    shown = row(run_body(measured()), wide=True, namespaces=True)
    assert list(shown) == ["namespace", *row(run_body(measured())), *WIDE]
    assert [shown[name] for name in ("namespace", *WIDE)] == [
        "lab", "Qwen/Qwen3-4B", "0.32.0", "2 H100", "vllm/vllm-openai:v0.32.0"
    ]  # fmt: skip


def test_the_youngest_comes_first() -> None:
    bodies = [run_body(running(), name=name) for name in ("old", "young", "middle")]
    for body, seconds in zip(bodies, (0, 20, 10), strict=True):
        body["metadata"]["creationTimestamp"] = at(seconds)
    assert [cells[0] for cells in run_list_rows(bodies, now=NOW).rows] == [
        "young",
        "middle",
        "old",
    ]


def test_a_run_of_another_version_does_not_hide_the_others() -> None:
    broken = {
        **run_body(running(), name="newer"),
        "status": {"progress": {"stages": 7}},
    }
    rows = run_list_rows([broken, run_body(measured())], now=NOW).rows
    assert {cells[0]: cells[1] for cells in rows} == {
        "newer": "Pending",
        "chat": "Suspect",
    }


def summary(status: BenchmarkRunStatus, **spec: Any) -> Summary:
    body = run_body(status)
    return run_summary(
        run_of({**body, "spec": {**body["spec"], **spec}}), status, now=NOW
    )


def test_a_summary_says_what_was_measured_on_what_and_what_came_out() -> None:
    shown = summary(measured(), repeats=3)
    assert (shown.title, shown.word, shown.sentence) == (
        "lab/chat",
        "Suspect",
        "ended: Suspect",
    )
    golden(
        "\n".join(f"{name}: {fact}" for name, fact in shown.facts),
        *shown.look_further,
    )


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ({"url": "https://llm.example/v1"}, "https://llm.example/v1"),
        ({"serviceRef": {"name": "vllm"}}, "service vllm"),
    ],
)
def test_an_endpoint_is_named(endpoint: Json, shown: str) -> None:
    assert (
        dict(summary(running(), server=None, endpoint=endpoint).facts)["endpoint"]
        == shown
    )


def test_the_summary_of_a_running_run_shows_how_to_follow_it() -> None:
    shown = summary(running())
    assert shown.word == "Running"
    golden(dict(shown.facts)["stages"], *shown.look_further)


def test_a_failed_server_points_to_its_log() -> None:
    golden(*summary(ended("Failed", log_tail="ValueError: no")).look_further)


# A run in a row, word by word: what nobody knows is a dash.

NOW_RUN_LIST_WORDS = BEGIN + timedelta(hours=5)


def found(*pairs: tuple[str, str]) -> BenchmarkRunStatus:
    made = [
        Finding.model_validate(
            {
                "code": c,
                "severity": s,
                "count": 1,
                "worst_stage": "s",
                "sentence": "It is.",
            }
        )
        for c, s in pairs
    ]
    return BenchmarkRunStatus(findings=made)


@pytest.mark.parametrize(
    ("text", "most", "pairs"),
    [
        ("-", 1, ()),
        ("-", 1, (("A", "Note"),)),
        ("A", 1, (("A", "Suspect"),)),
        ("B +1", 1, (("A", "Suspect"), ("B", "Invalid"))),
        ("B, A", 2, (("A", "Suspect"), ("B", "Invalid"))),
        ("B, A", 6, (("A", "Suspect"), ("N", "Note"), ("B", "Invalid"))),
        ("A, B +1", 2, (("A", "Invalid"), ("B", "Invalid"), ("C", "Invalid"))),
    ],
)
def test_findings_worst_first(
    text: str, most: int, pairs: tuple[tuple[str, str], ...]
) -> None:
    assert finding_codes(found(*pairs), most=most) == text


def test_a_row_names_one_finding() -> None:
    assert finding_codes(found(("A", "Suspect"), ("B", "Suspect"))) == "A +1"
    assert MAX_CODES == 1


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Pending", {}),
        ("Running", {"phase": "Running", "verdict": "Valid"}),
        ("Valid", {"phase": "Completed", "verdict": "Valid"}),
        ("Completed", {"phase": "Completed"}),
        ("Cancelled", {"phase": "Cancelled", "verdict": "Valid"}),
    ],
)
def test_states(text: str, fields: Json) -> None:
    assert state(BenchmarkRunStatus(**fields)) == text


def limited(load_point: str, limit: str | None) -> Any:
    bottleneck = (
        Bottleneck.model_validate({"limit": limit, "sentence": "s"})
        if limit is not None
        else None
    )
    return result(load_point, axis="RequestRate", bottleneck=bottleneck)


@pytest.mark.parametrize(
    ("text", "headline", "rows"),
    [
        ("-", None, ()),
        ("-", None, (("a/rate=1", None), ("a/rate=2", "None"))),
        (
            "Compute",
            None,
            (("a/rate=1", "None"), ("a/rate=2", "Compute"), ("a/rate=3", "Client")),
        ),
        ("Client", "a/rate=3", (("a/rate=2", "Compute"), ("a/rate=3", "Client"))),
        ("-", "a/rate=1", (("a/rate=1", "None"), ("a/rate=2", "Compute"))),
        ("-", "a/rate=9", (("a/rate=2", "Compute"),)),
    ],
)
def test_the_limit_is_that_of_the_headlines_load_point(
    text: str, headline: str | None, rows: tuple[tuple[str, str | None], ...]
) -> None:
    best = (
        Headline(load_point=headline, throughput="1", p99_ttft="1")
        if headline is not None
        else None
    )
    assert (
        limit(
            BenchmarkRunStatus(
                results=[limited(*row) for row in rows], headline=best
            )
        )
        == text
    )


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (("-", "-"), []),
        (("-", "-"), [ServerStatus(engine="VLLM", role="server")]),
        (
            ("0.32.0", "-"),
            [
                ServerStatus(
                    engine="VLLM", role="server", version="0.32.0", gpu="H100"
                )
            ],
        ),
        (("-", "2"), [ServerStatus(engine="VLLM", role="server", gpus=2)]),
        (
            ("0.32.0", "3 H100"),
            [
                ServerStatus(engine="VLLM", role="prefill", gpus=2),
                ServerStatus(
                    engine="VLLM",
                    role="decode",
                    gpus=1,
                    gpu="H100",
                    version="0.32.0",
                ),
                ServerStatus(engine="VLLM", role="proxy"),
            ],
        ),
    ],
)
def test_the_row_shows_server_version_and_gpus(
    text: tuple[str, str], servers: list[ServerStatus]
) -> None:
    rows = run_list_rows(
        [run_body(ended(servers=servers))], now=NOW_RUN_LIST_WORDS, wide=True
    )
    row = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert list(row)[-4:] == ["model", "version", "GPU", "image"]
    assert (row["version"], row["GPU"]) == text


def test_runs_of_one_instant_are_in_order_of_their_names_and_those_without_one_last() -> (
    None
):
    bodies = [run_body(running(), name=name) for name in ("a", "c", "b", "none")]
    del bodies[3]["metadata"]["creationTimestamp"]
    rows = run_list_rows(bodies, now=NOW_RUN_LIST_WORDS).rows
    assert [row[0] for row in rows] == ["c", "b", "a", "none"]
    assert [row[-1] for row in rows] == ["5h", "5h", "5h", "0s"]
