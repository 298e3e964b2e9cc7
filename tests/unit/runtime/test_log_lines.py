"""Entries of the log: the object as fields, bounded, on one line."""

import json
import logging
from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, Condition, Reason
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Decision, Ending, Ref
from benchrun.names import KIND
from benchrun.observe import Key
from benchrun.runtime.log_lines import (
    MAX_CHARACTERS,
    JsonFormatter,
    PlainFormatter,
    concerns,
    concerns_stage,
    decided_in_words,
)


def record(text: str, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("benchrun.x", logging.INFO, "", 0, text, None, None)
    made.__dict__.update(more)
    return made


def logged(text: str = "hello", **more: Any) -> dict[str, str]:
    entry: dict[str, str] = json.loads(JsonFormatter().format(record(text, **more)))
    return {
        key: entry[key] for key in entry if key not in ("time", "level", "logger")
    }


@pytest.mark.parametrize(("kind", "field"), [(KIND, "run"), (SWEEP_KIND, "sweep")])
async def test_an_entry_names_the_object_of_its_pass(kind: str, field: str) -> None:
    concerns(Key(kind, "team", "chat"))
    assert logged() == {"namespace": "team", field: "chat", "message": "hello"}
    assert (
        PlainFormatter()
        .format(record("hello"))
        .endswith(f": hello namespace=team {field}=chat")
    )


async def test_a_stage_is_named_as_long_as_it_is_measured() -> None:
    concerns(Key(KIND, "team", "chat"))
    concerns_stage("users/concurrency=4/r1")
    assert logged()["stage"] == "users/concurrency=4/r1"
    concerns_stage(None)
    assert "stage" not in logged()


async def test_kopfs_own_entries_name_their_object() -> None:
    ref = {"kind": KIND, "namespace": "team", "name": "chat", "uid": "1"}
    assert logged(k8s_ref=ref) == {
        "namespace": "team",
        "run": "chat",
        "message": "hello",
    }


@pytest.mark.parametrize(
    "text", ["a\n2026-11-28 INFO forged: b", "a\x1b[2Jb", "a\rb", "a\u202eb"]
)
def test_no_text_begins_an_entry_or_steers_a_terminal(text: str) -> None:
    line = PlainFormatter().format(record(text))
    assert line.isprintable()
    assert line.count("\n") == 0


def test_an_entry_is_bounded() -> None:
    assert len(logged("x" * 1_000_000)["message"]) == MAX_CHARACTERS
    assert (
        len(PlainFormatter().format(record("x" * 1_000_000))) < MAX_CHARACTERS + 100
    )


def test_a_traceback_is_indented() -> None:
    try:
        raise ValueError("one\nforged")
    except ValueError as error:
        raised = (ValueError, error, error.__traceback__)
    first, *rest = (
        PlainFormatter().format(record("failed", exc_info=raised)).splitlines()
    )
    assert first.endswith(": failed")
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1].strip() == "forged"


def condition(type_: str, status: Any, reason: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason)


def test_a_decision_is_told_by_what_it_changes() -> None:
    accepted = condition("Accepted", "True", "Accepted")
    failed = condition("Failed", "True", "ServerGone")
    status = BenchmarkRunStatus(phase="Failed", conditions=[accepted, failed])
    before = {"phase": "Running", "conditions": [accepted.model_dump()]}
    decision = Decision(
        status=status,
        delete=(Ref("Job", "team", "br-chat-client", "1"),),
        ending=Ending(Reason.SERVER_GONE, "it is gone"),
        requeue_after_seconds=5.0,
    )
    assert decided_in_words(before, decision) == (
        "decided: changes phase Failed, Failed=True (ServerGone); "
        "deletes Job br-chat-client; ends as ServerGone; next reconcile in 5.0 s"
    )
    assert (
        decided_in_words(status.model_dump(), Decision(status=status))
        == "decided: nothing"
    )
