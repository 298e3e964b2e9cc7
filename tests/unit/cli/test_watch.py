"""`benchrun watch`: a run followed through everything that may happen to a watch."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from benchrun.cli import following
from benchrun.cli.__main__ import main
from benchrun.cli.following import MAX_TARGETS, objects
from benchrun.report import watch_state
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.test_interrupts import PYTHONPATH
from unit.golden_messages import golden
from unit.report.going_on import ended, live, run_body, running

Capture = pytest.CaptureFixture[str]
DOWN = (
    "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or "
    "port?"
)


def test_lines_then_tables_then_the_code(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(
        run_body(running(done=0)),
        run_body(running(live=live(90))),
        run_body(ended("Invalid")),
    )
    assert main(["watch", "chat", "-n", "lab", "--context", "dev"]) == 4
    output = capsys.readouterr()
    assert "Running · 0/4 · running 8, waiting 2" in output.out
    assert output.out.splitlines()[-1] == "chat: Invalid - ended: Invalid"
    assert output.err == ""
    assert "\x1b" not in output.out
    assert kubectl.commands()[0] == [
        "get",
        "benchmarkruns.benchrun.dev",
        "chat",
        "--watch",
        "--output-watch-events",
        "--output=json",
        "--namespace=lab",
        "--context=dev",
    ]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_PAUSE_SECONDS", 0.01)


@pytest.mark.parametrize("last", ["MODIFIED", "ERROR"])
def test_a_watch_that_the_api_server_ends_is_restarted(
    last: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(
        run_body(running(done=0)),
        run_body(running(done=0)),
        last=last,
        once=True,
        stays=False,
    )
    kubectl.watch(run_body(ended()))
    assert main(["watch", "chat"]) == 0
    assert sum("--watch" in arguments for arguments in kubectl.commands()) == 2
    assert "trying again" not in capsys.readouterr().out


def test_a_cluster_that_goes_away_for_a_while_is_reported_and_waited_for(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(run_body(running(done=0)), once=True, stays=False)
    kubectl.fails("--watch", error=DOWN, once=True)
    kubectl.watch(run_body(ended()))
    assert main(["watch", "chat"]) == 0
    assert "the cluster at 10.0.0.1:6443 does not answer" in capsys.readouterr().out


def test_a_cluster_that_never_answered_is_an_error_at_once(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails("--watch", error=DOWN)
    assert main(["watch", "chat"]) == 1
    assert len(kubectl.commands()) == 1
    golden(capsys.readouterr().err)


def test_a_status_that_claims_any_number_of_stages_is_not_read_record_by_record(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_state, "MAX_STAGES", 8)
    claimed = running(done=0, total=1_000), running(done=1_000, total=1_000)
    kubectl.watch(*map(run_body, claimed), run_body(ended()))
    kubectl.fails("configmaps", error="Error from server (NotFound): not found")
    assert main(["watch", "chat"]) == 0
    assert sum("configmaps" in each for each in kubectl.commands()) == 8


def test_a_run_that_is_deleted_meanwhile_ends_it(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(run_body(running()), run_body(running()), last="DELETED")
    assert main(["watch", "chat"]) == 1
    golden(capsys.readouterr().err)


def test_access_that_is_taken_away_ends_it(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(run_body(running()), once=True, stays=False)
    kubectl.fails(
        "--watch",
        error='Error from server (Forbidden): benchmarkruns.benchrun.dev "chat" is forbidden: User "eve" cannot watch '
        'resource "benchmarkruns" in API group "benchrun.dev" in the namespace "lab"',
    )
    assert main(["watch", "chat"]) == 1
    golden(capsys.readouterr().err)


def test_a_timeout_ends_the_watching_and_not_the_run(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(run_body(running()))
    assert main(["watch", "chat", "-n", "lab", "--timeout", "0.2s"]) == 124
    output = capsys.readouterr()
    assert output.err == "benchrun: chat: not ended within the timeout\n"
    assert "the run continues in the cluster" in output.out
    assert (
        'kubectl patch bmr chat -n lab --type=merge -p \'{"spec":{"cancel":true}}\''
        in output.out
    )
    assert not any("patch" in arguments for arguments in kubectl.commands())


def test_a_reader_that_has_seen_enough_ends_the_watching_and_not_the_run(
    kubectl: FakeKubectl,
) -> None:
    kubectl.watch(run_body(running()))
    read_end, writing = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "benchrun.cli", "watch", "chat"]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(
        command,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text", ["0", "soon", "-1s"])
def test_a_timeout_is_a_length_of_time(text: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["watch", "chat", f"--timeout={text}"])
    assert "argument --timeout: " in capsys.readouterr().err


def test_a_run_that_has_ended_is_shown_without_reading_its_records(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(run_body(ended()))
    assert main(["watch", "chat"]) == 0
    assert [arguments[1] for arguments in kubectl.commands()] == [
        "benchmarkruns.benchrun.dev"
    ]
    assert "stage" not in capsys.readouterr().out


def test_a_status_of_another_version_is_an_error(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch({**run_body(running()), "status": {"progress": {"stages": 1}}})
    assert main(["watch", "chat"]) == 1
    golden(capsys.readouterr().err)


def test_too_many_runs_are_too_many(kubectl: FakeKubectl, capsys: Capture) -> None:
    assert main(["watch", *(f"run-{n}" for n in range(MAX_TARGETS + 1))]) == 1
    assert kubectl.commands() == []
    golden(capsys.readouterr().err)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            '{\n    "a": {\n        "b": "}"\n    }\n}\n{\n    "a": 2\n}\n',
            id="spread over lines",
        ),
        pytest.param('{"a": {"b": "}"}}\n{"a": 2}\n', id="a line each"),
    ],
)
async def test_objects_of_a_stream(text: str) -> None:
    assert await found_in(text.splitlines()) == [{"a": {"b": "}"}}, {"a": 2}]


async def test_an_object_that_was_cut_is_none() -> None:
    assert await found_in(["{", '  "a": 1']) == []


async def found_in(lines: list[str]) -> list[dict[str, Any]]:
    async def stream() -> AsyncIterator[str]:
        for line in lines:
            yield line

    return [found async for found in objects(stream())]
