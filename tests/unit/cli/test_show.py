"""A result on a terminal."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import BenchmarkRunStatus
from benchrun.cli.__main__ import TABLE_WIDTH, main
from benchrun.cli.console_tables import Terminal, show_result
from benchrun.report.tables import UNCERTAIN_NOTE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.finished_runs import finished_run
from unit.golden_messages import golden
from unit.report.going_on import ended, run_body
from unit.report.statuses import result, status


def shown(
    status: BenchmarkRunStatus, *, wide: bool = False, terminal: bool = False
) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=TABLE_WIDTH,
        highlight=False,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
    )
    show_result(console, "run", status, wide=wide)
    return out.getvalue()


def test_uncertain_figures_carry_a_mark_and_its_meaning() -> None:
    text = shown(status(result()))
    assert "118?" in text
    assert UNCERTAIN_NOTE in text


def test_without_uncertain_figures_there_is_no_note() -> None:
    assert UNCERTAIN_NOTE not in shown(status(result(uncertain=[])))


def test_a_terminal_greys_them() -> None:
    assert "\x1b[2m118?" in shown(status(result()), terminal=True)


def test_a_pipe_gets_no_colours() -> None:
    assert "\x1b" not in shown(status(result()))


def test_the_reasons_stand_under_the_table() -> None:
    lines = shown(status(result())).splitlines()
    table = next(
        i
        for i, line in enumerate(lines)
        if line.startswith("load point") and "verdict" in line
    )
    reason = next(
        i
        for i, line in enumerate(lines)
        if "Requests waited in 40 of 40 readings" in line
    )
    assert table < reason
    assert "waiting  SequenceLimit" in lines[reason]


def test_an_objective_that_sets_the_exit_code_is_shown() -> None:
    missed = {
        "metric": "TTFT",
        "percentile": "99",
        "maxMilliseconds": 500,
        "measuredMilliseconds": 812.0,
        "outcome": "Missed",
    }
    row = result().model_dump(by_alias=True) | {"objectives": [missed]}
    (line,) = (
        each
        for each in shown(status(type(result()).model_validate(row))).splitlines()
        if "Missed" in each and each.startswith("chat/concurrency=8")
    )
    assert all(word in line for word in ("TTFT p99", "500 ms", "812"))


LONG = "long-documents-of-many-pages/concurrency=1024"


def line_with(word: str, lines: list[str]) -> str:
    """Return the only line with this word."""
    (found,) = (line for line in lines if word in line.split())
    return found


def test_lines_stay_within_the_width_and_figures_in_one_piece() -> None:
    lines = shown(status(result(LONG))).splitlines()
    assert TABLE_WIDTH == 120
    assert max(map(len, lines)) <= TABLE_WIDTH
    row = line_with("812", lines)
    assert LONG not in row, "the name is what gives way"


def test_a_wide_table_takes_the_room_that_it_needs() -> None:
    found = result(
        LONG, metrics={**result().metrics, "total_token_throughput": 25_400.0}
    )
    lines = shown(status(found), wide=True).splitlines()
    row = line_with("812", lines)
    assert row.split()[:4] == [LONG, "3.46", "812", "25400"]
    assert len(row) > TABLE_WIDTH
    below = lines[lines.index(row) + 1 :]
    assert max(map(len, below)) <= TABLE_WIDTH, "sentences fold all the same"


def test_intervals_are_shown_when_requested() -> None:
    assert (
        "at most"
        in shown(status(result()), wide=True).partition("SequenceLimit")[2]
    )
    assert "83.25" not in shown(status(result()))
    assert "83.25" in shown(status(result()), wide=True)


@pytest.mark.parametrize("phase", ["Failed", "Cancelled"])
def test_of_a_run_that_ended_early_its_end_comes_first(phase: str) -> None:
    early = status(result()).model_copy(
        update={"phase": phase, "message": "the server restarted"}
    )
    lines = shown(early).splitlines()
    golden(*lines[:2])


def test_sentences_fold_at_the_edge_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = [
        Text.from_ansi(line).plain.rstrip()
        for line in shown(status(result()), terminal=True).splitlines()
    ]
    assert max(map(len, output[output.index(UNCERTAIN_NOTE) + 1 :])) <= 80


Capture = pytest.CaptureFixture[str]
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mbad\x1b[0m\u202e\x9b1m\b"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def evil_run() -> dict[str, Any]:
    body = run_body(ended("Failed", log_tail=EVIL))
    finding = {
        "code": EVIL,
        "severity": "Note",
        "count": 1,
        "worstStage": "chat/rate=4/r1",
        "sentence": EVIL,
    }
    headline = {"loadPoint": EVIL, "throughput": "1", "p99TTFT": "1"}
    status = {
        **body["status"],
        "message": EVIL,
        "findings": [finding],
        "headline": headline,
    }
    return {**body, "status": status}


@pytest.mark.parametrize(
    "command", [["report", "chat"], ["get"], ["get", "chat"], ["logs", "chat"]]
)
def test_no_command_passes_on_what_a_terminal_would_obey(
    command: list[str], kubectl: FakeKubectl, capsys: Capture
) -> None:
    body = evil_run()
    kubectl.gives("get", "benchmarkruns.benchrun.dev", "chat", body=body)
    kubectl.gives("get", "benchmarkruns.benchrun.dev", body={"items": [body]})
    for nothing in ("pods", "benchmarksweeps.benchrun.dev"):
        kubectl.gives("get", nothing, body={"items": []})
    main(command)
    output = capsys.readouterr()
    assert "bad" in output.out
    assert OBEYED.search(output.out + output.err) is None


def test_a_followed_run_cannot_steer_the_terminal(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(evil_run())
    main(["watch", "chat"])
    output = capsys.readouterr()
    assert "bad" in output.out
    assert OBEYED.search(output.out + output.err) is None


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_a_report_of_a_file_cannot_steer_the_terminal(
    form: list[str], tmp_path: Path, capsys: Capture
) -> None:
    run = finished_run()
    finding = {
        "code": "ClientSaturated",
        "severity": "Note",
        "count": 1,
        "worstStage": EVIL,
        "sentence": EVIL,
        "meaning": EVIL,
    }
    status = {
        **run.body["status"],
        "message": EVIL,
        "logTail": EVIL,
        "findings": [finding],
    }
    file = tmp_path / "run.yaml"
    file.write_text(
        yaml.safe_dump(json.loads(json.dumps({**run.body, "status": status}))),
        encoding="utf-8",
    )
    main(["report", "-f", str(file), *form])
    output = capsys.readouterr().out
    assert "bad" in output
    assert OBEYED.search(output) is None


def test_an_error_of_kubectl_is_shown_alike(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails("get", error=f"error: {EVIL}")
    assert main(["get"]) == 1
    output = capsys.readouterr().err
    assert "bad" in output
    assert OBEYED.search(output) is None


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
