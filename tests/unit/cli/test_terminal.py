"""What a cluster says is shown and never obeyed by the terminal, whichever command shows it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.cli.__main__ import main
from benchrun.cli.show import Terminal
from rich.table import Table
from rich.text import Text
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.finished_runs import finished_run
from unit.report.going_on import ended, run_body

Capture = pytest.CaptureFixture[str]
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mbad\x1b[0m\u202e\x9b1m\b"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def evil_run() -> dict[str, Any]:
    body = run_body(ended("Failed", log_tail=EVIL))
    finding = {"code": EVIL, "severity": "Note", "count": 1, "worstStage": "chat/rate=4/r1"}
    headline = {"cell": EVIL, "throughput": "1", "p99TTFT": "1"}
    status = {**body["status"], "message": EVIL, "findings": [finding], "headline": headline}
    return {**body, "status": status}


@pytest.mark.parametrize("command", [["report", "chat"], ["get"], ["get", "chat"], ["logs", "chat"]])
def test_no_command_passes_on_what_a_terminal_would_obey(
    command: list[str], kubectl: FakeKubectl, capsys: Capture
) -> None:
    body = evil_run()
    kubectl.gives("get", "benchmarkruns.benchrun.dev", "chat", body=body)
    kubectl.gives("get", "benchmarkruns.benchrun.dev", body={"items": [body]})
    for nothing in ("pods", "benchmarksweeps.benchrun.dev"):
        kubectl.gives("get", nothing, body={"items": []})
    main(command)
    said = capsys.readouterr()
    assert "bad" in said.out
    assert OBEYED.search(said.out + said.err) is None


def test_nor_does_following_a_run(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.watch(evil_run())
    main(["watch", "chat"])
    said = capsys.readouterr()
    assert "bad" in said.out
    assert OBEYED.search(said.out + said.err) is None


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_nor_does_a_report_of_a_file(form: list[str], tmp_path: Path, capsys: Capture) -> None:
    run = finished_run()
    finding = {"code": "ClientSaturated", "severity": "Note", "count": 1, "worstStage": EVIL, "meaning": EVIL}
    status = {**run.body["status"], "message": EVIL, "logTail": EVIL, "findings": [finding]}
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps({**run.body, "status": status}))), encoding="utf-8")
    main(["report", "-f", str(file), *form])
    said = capsys.readouterr().out
    assert "bad" in said
    assert OBEYED.search(said) is None


def test_an_error_of_kubectl_is_shown_alike(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.fails("get", error=f"error: {EVIL}")
    assert main(["get"]) == 1
    said = capsys.readouterr().err
    assert "bad" in said
    assert OBEYED.search(said) is None


def test_tabs_and_lines_stay() -> None:
    terminal = Terminal()
    terminal.file = io.StringIO()
    terminal.print(Text("a\tb\n  c"), style="red")
    assert terminal.file.getvalue() == "a       b\n  c\n"


def test_styles_are_the_commands_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    terminal.file = io.StringIO()
    table = Table(box=None)
    table.add_column("verdict")
    table.add_row(Text("Valid\x1b[2J", style="green"))
    terminal.print(table)
    assert "\x1b[32mValid" in terminal.file.getvalue()
    assert "\x1b[2J" not in terminal.file.getvalue()
