"""`benchrun run -f` and `benchrun watch` on sweeps; with a kubectl that is a real process."""

import asyncio
import io
import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.cli import following
from benchrun.cli.__main__ import main
from benchrun.cli.cluster import Kubectl
from benchrun.cli.commands.watch import say_how_to_go_on
from benchrun.cli.errors import CommandError
from benchrun.cli.following import FollowedObject, by_name, follow
from benchrun.cli.progress_display import LogReporter, full
from benchrun.report.live_view import live_view
from benchrun.report.watch_state import updated_sweep, with_run
from rich.console import Console
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.test_interrupts import Command
from unit.cli.test_run import manifest
from unit.cli.test_screen import drawn, on_a_terminal
from unit.golden_messages import golden
from unit.plan.specs import Json
from unit.report.finished_sweeps import (
    FinishedSweep,
    Measured,
    batches,
    finished_sweep,
    sweep_object,
)
from unit.report.going_on import BEGIN, ended, run_body, running
from unit.report.sweeps_going_on import run_of_sweep, sweep_going_on
from unit.sweep.sweeps import NAME, decided, sweep_body

Capture = pytest.CaptureFixture[str]
OF_ITS_RUNS = f"--selector=benchrun.dev/sweep={NAME}"
NOT_FOUND = (
    'Error from server (NotFound): benchmarkruns.benchrun.dev "seqs" not found'
)
FORBIDDEN = (
    'Error from server (Forbidden): benchmarkruns.benchrun.dev is forbidden: User "eve" cannot list resource "benchmarkruns" '
    'in API group "benchrun.dev" in the namespace "lab"'
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_PAUSE_SECONDS", 0.01)


def file(folder: Path, *bodies: Json) -> str:
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return str(path)


def sweep_manifest(sweep: FinishedSweep, **metadata: Any) -> Json:
    """The manifest of a sweep."""
    named = metadata or {"name": NAME}
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": named,
        "spec": sweep.written,
    }


def applied(kubectl: FakeKubectl) -> None:
    kubectl.answer(
        "get", "benchmarksweeps.benchrun.dev", NAME, "--ignore-not-found"
    )
    kubectl.gives("apply", body=sweep_going_on(under_way=0))


def watched(
    kubectl: FakeKubectl, *bodies: Json, runs: tuple[Json, ...] = ()
) -> None:
    kubectl.watch(*bodies, target=NAME)
    kubectl.watch(*runs or (run_of_sweep(1, running()),), target=OF_ITS_RUNS)


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        (0, {"base": Measured(), "wide": Measured(verdict="Suspect")}),
        (4, {"base": Measured(), "wide": Measured(verdict="Invalid")}),
        (2, {"base": Measured(), "wide": None}),
    ],
    ids=["measured", "a row invalid", "a run failed"],
)
def test_the_exit_code_is_that_of_the_verdict(
    code: int,
    measured: dict[str, Measured | None],
    tmp_path: Path,
    kubectl: FakeKubectl,
    capsys: Capture,
) -> None:
    done = finished_sweep(measured)
    applied(kubectl)
    watched(kubectl, sweep_going_on(), done.body)
    assert (
        main(["run", "-f", file(tmp_path, sweep_manifest(done)), "-n", "lab"])
        == code
    )
    output = capsys.readouterr().out
    assert output.startswith("BenchmarkSweep seqs in namespace lab created\n")
    assert "  Running · 0/3 runs\n" in output
    assert f"seqs: {done.status.verdict} - {done.status.message}" in " ".join(
        output.split()
    )
    assert "variant  load point" in output


def test_its_runs_go_by_in_a_log(tmp_path: Path, kubectl: FakeKubectl) -> None:
    """The sweep ends once its run was heard to have ended."""
    may_end = tmp_path / "may-end"
    os.mkfifo(may_end)
    applied(kubectl)
    kubectl.watch(sweep_going_on(), target=NAME, once=True, stays=False)
    kubectl.answer(
        NAME,
        "--watch",
        out=json.dumps({"type": "ADDED", "object": batches().body}) + "\n",
        after=may_end,
    )
    kubectl.watch(
        run_of_sweep(1, running(done=0)),
        run_of_sweep(1, ended()),
        target=OF_ITS_RUNS,
    )
    command = Command("run", "-f", file(tmp_path, sweep_manifest(batches())))
    output = command.until(f"base ({NAME}-v1-r1): Valid")
    assert f"base ({NAME}-v1-r1): Running · 0/4 · running 8" in output
    may_end.open("w").close()
    rest, error = command.process.communicate(timeout=30)
    assert (command.process.returncode, error) == (0, "")
    assert "Completed · 3/3 runs" in rest
    assert "while running goes from 33 to 276" in rest


def test_a_watch_of_its_runs_that_fails_before_there_are_any_is_restarted(
    tmp_path: Path, kubectl: FakeKubectl
) -> None:
    may_end = tmp_path / "may-end"
    os.mkfifo(may_end)
    applied(kubectl)
    kubectl.watch(sweep_going_on(), target=NAME, once=True, stays=False)
    kubectl.answer(
        NAME,
        "--watch",
        out=json.dumps({"type": "ADDED", "object": batches().body}) + "\n",
        after=may_end,
    )
    kubectl.fails(
        "--watch",
        OF_ITS_RUNS,
        error="The connection to the server 10.0.0.1:6443 was refused",
        once=True,
    )
    kubectl.watch(run_of_sweep(1, running()), target=OF_ITS_RUNS)
    command = Command("run", "-f", file(tmp_path, sweep_manifest(batches())))
    command.until(f"base ({NAME}-v1-r1): Running")
    may_end.open("w").close()
    command.process.communicate(timeout=30)
    assert command.process.returncode == 0


def test_generate_name_makes_a_new_sweep_and_follows_that(
    tmp_path: Path, kubectl: FakeKubectl
) -> None:
    kubectl.gives("create", body=sweep_going_on(under_way=0))
    watched(kubectl, batches().body)
    assert (
        main(
            [
                "run",
                "-f",
                file(tmp_path, sweep_manifest(batches(), generateName="seqs-")),
            ]
        )
        == 0
    )
    assert ["get", "benchmarksweeps.benchrun.dev", NAME, "--watch"] in [
        line[:4] for line in kubectl.commands()
    ]


def test_one_that_has_ended_gets_no_second_measurement_and_does_not_look_so(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    done = batches()
    kubectl.gives(
        "get", "benchmarksweeps.benchrun.dev", "--ignore-not-found", body=done.body
    )
    kubectl.gives("apply", "--dry-run=server", body=done.body)
    assert main(["run", "-f", file(tmp_path, sweep_manifest(done))]) == 1
    output = capsys.readouterr().err
    golden(output)


def test_who_may_not_read_runs_follows_the_sweep_all_the_same(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    applied(kubectl)
    kubectl.watch(sweep_going_on(), batches().body, target=NAME)
    kubectl.fails("--watch", OF_ITS_RUNS, error=FORBIDDEN)
    assert main(["run", "-f", file(tmp_path, sweep_manifest(batches()))]) == 0
    output = capsys.readouterr()
    assert "may not list" not in output.out + output.err


def test_a_run_and_a_sweep_together_the_worst_decides(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.answer("get", "--ignore-not-found")
    kubectl.answer(
        "apply", out=json.dumps(run_body(running(), name="chat")), once=True
    )
    kubectl.answer("apply", out=json.dumps(sweep_going_on(under_way=0)), once=True)
    kubectl.watch(run_body(running()), run_body(ended("Invalid")), target="chat")
    watched(kubectl, sweep_going_on(), batches().body)
    assert (
        main(["run", "-f", file(tmp_path, manifest(), sweep_manifest(batches()))])
        == 4
    )
    output = capsys.readouterr().out
    assert "chat: Invalid - " in output
    assert "seqs: Valid - " in output


def test_ctrl_c_cancels_the_sweep_with_the_option_and_its_end_is_awaited(
    tmp_path: Path, kubectl: FakeKubectl
) -> None:
    applied(kubectl)
    cancelled = sweep_object(
        decided(sweep_body(cancel=True)).status.model_dump(
            mode="json", by_alias=True
        ),
        spec=sweep_body(),
    )
    kubectl.watch(sweep_going_on(), target=NAME, once=True)
    kubectl.watch(cancelled, target=NAME)
    kubectl.watch(run_of_sweep(1, running()), target=OF_ITS_RUNS)
    kubectl.gives(
        "get",
        "benchmarksweeps.benchrun.dev",
        NAME,
        "--output=json",
        body=sweep_going_on(),
        unless="--watch",
    )
    kubectl.answer("patch", "benchmarksweeps.benchrun.dev", NAME)
    command = Command(
        "run",
        "-f",
        file(tmp_path, sweep_manifest(batches())),
        "--cancel-on-interrupt",
    )
    command.until("Running · 0/3 runs")
    code, output = command.interrupted(signal.SIGINT)
    assert code == 5
    assert f"cancelling {NAME}" in output
    patched = [line for line in kubectl.commands() if line[0] == "patch"]
    assert [line[1:3] for line in patched] == [
        ["benchmarksweeps.benchrun.dev", NAME]
    ]


# ---- watch
# -----------------------------------------------------------------------------------------------------------


def test_a_name_that_is_no_run_may_be_a_sweep(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails("benchmarkruns.benchrun.dev", NAME, "--watch", error=NOT_FOUND)
    kubectl.gives(
        "benchmarksweeps.benchrun.dev",
        NAME,
        "--ignore-not-found",
        body=sweep_going_on(),
    )
    watched(kubectl, sweep_going_on(), batches().body)
    assert main(["watch", NAME]) == 0
    assert "seqs: Valid - measured 3 of 3 variants" in capsys.readouterr().out


def test_what_was_found_to_be_a_sweep_is_known_as_one(kubectl: FakeKubectl) -> None:
    """Whoever stops waiting is told how to end a sweep, not a run."""
    kubectl.fails("benchmarkruns.benchrun.dev", NAME, "--watch", error=NOT_FOUND)
    kubectl.gives(
        "benchmarksweeps.benchrun.dev",
        NAME,
        "--ignore-not-found",
        body=sweep_going_on(),
    )
    watched(kubectl, batches().body)
    targets = {NAME: FollowedObject(Kubectl("lab"))}
    out = io.StringIO()
    console = Console(file=out, width=200)
    assert asyncio.run(
        follow(targets, LogReporter(console, several=False))
    ).codes == {NAME: 0}
    say_how_to_go_on(targets, console)
    golden(out.getvalue())


def test_a_sweep_that_is_deleted_meanwhile_ends_it(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.watch(sweep_going_on(), sweep_going_on(), target=NAME, last="DELETED")
    kubectl.watch(run_of_sweep(1, running()), target=OF_ITS_RUNS)
    assert main(["watch", NAME, "--sweep"]) == 1
    golden(capsys.readouterr().err)


def test_waiting_has_an_end(kubectl: FakeKubectl, capsys: Capture) -> None:
    watched(kubectl, sweep_object({}, spec=sweep_body()))
    assert main(["watch", NAME, "--sweep", "--timeout", "0.3s", "-n", "lab"]) == 124
    output = capsys.readouterr()
    assert "the sweep continues in the cluster" in output.out
    assert "kubectl patch bms seqs -n lab" in output.out
    assert output.err == "benchrun: seqs: not ended within the timeout\n"


def test_a_run_and_a_sweep_of_one_name_are_distinguished_by_hand() -> None:
    run = FollowedObject(Kubectl("lab"))
    sweep = FollowedObject(Kubectl("lab"), "BenchmarkSweep")
    with pytest.raises(CommandError) as raised:
        by_name([("chat", run), ("chat", sweep)])
    golden(str(raised.value))


# ---- on a terminal
# ---------------------------------------------------------------------------------------------------


def view(
    *runs: Json, width: int = 120, height: int = 40, **going_on: Any
) -> list[str]:
    sweep = updated_sweep(None, sweep_going_on(**going_on))
    for run in runs:
        sweep = with_run(sweep, run)
    now = BEGIN + timedelta(seconds=100)
    return drawn(
        full(live_view(sweep, now=now), width=width, height=height), width=width
    )


def test_a_run_that_goes_on_is_shown_below_the_sweep() -> None:
    going = run_of_sweep(1, running())
    done = run_of_sweep(1, ended("Suspect"))
    lines = view(going, done, run_of_sweep(2, running()), done=("",))
    assert "1/3 runs" in lines[1]
    assert any("1/4 stages" in line for line in lines)
    assert any(line.startswith("running") for line in lines)
    golden(lines[0], lines[2], lines[4], lines[-1])


def test_several_runs_that_go_on_have_a_line_each() -> None:
    runs = [run_of_sweep(number, running()) for number in (1, 2, 3)]
    lines = view(*runs, under_way=3, maxParallel=3)
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        f"{name} (seqs-v{number}-r1)"
        for number, name in ((1, "base"), (2, "wide"), (3, "wider"))
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("height", [24, 50])
def test_no_line_is_wider_than_the_terminal_and_all_fit_its_height(
    width: int, height: int
) -> None:
    lines = view(run_of_sweep(1, running()), width=width, height=height)
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert len(lines) < height


def test_on_a_terminal_it_is_drawn_and_removed(kubectl: FakeKubectl) -> None:
    kubectl.fails("benchmarkruns.benchrun.dev", NAME, "--watch", error=NOT_FOUND)
    kubectl.gives(
        "benchmarksweeps.benchrun.dev",
        NAME,
        "--ignore-not-found",
        body=sweep_going_on(),
    )
    watched(kubectl, sweep_going_on(), batches().body)
    code, screen = on_a_terminal("watch", NAME, width=100, height=30)
    assert code == 0
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l"), (
        "the cursor is shown again"
    )
    assert "while running goes from 33 to 276" in " ".join(screen.split())
