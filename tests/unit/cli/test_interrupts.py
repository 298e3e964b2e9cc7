"""Ctrl-C and SIGTERM while a run is followed: what is said, what becomes of the run, and that no
process is left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml
from benchrun.cli.cluster import Kubectl
from kit.polling import polling
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.test_run import fresh, manifest
from unit.golden_messages import golden
from unit.report.going_on import ended, run_body, running

ROOT = Path(__file__).parents[3]
PYTHONPATH = f"{ROOT / 'operator'}{os.pathsep}{ROOT / 'client-image'}"


class Command:
    """The command as a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchrun.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            # A shell that runs this in the background has signals of the keyboard ignored, and
            # children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def until(self, text: str) -> str:
        """What it prints up to the line with the text."""
        assert self.process.stdout is not None
        output = ""
        for line in self.process.stdout:
            output += line
            if text in line:
                return output
        raise AssertionError(
            f"ended without {text!r}: {output}{self.process.communicate()[1]}"
        )

    def interrupted(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and the rest of what it says."""
        self.process.send_signal(number)
        out, error = self.process.communicate(timeout=30)
        return self.process.returncode, out + error


@pytest.fixture
def path(tmp_path: Path, kubectl: FakeKubectl) -> Iterator[str]:
    """A manifest whose run is new, and goes on until it is cancelled."""
    kubectl.answer("get", "chat", "--ignore-not-found")
    kubectl.gives("apply", body=fresh())
    # the first one; others are to follow
    kubectl.watch(run_body(running()), once=True)
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(manifest()), encoding="utf-8")
    yield str(file)
    left = [
        pid
        for pid in Path("/proc").iterdir()
        if pid.name.isdigit() and _is_ours(pid, kubectl.folder)
    ]
    assert left == []


def _is_ours(pid: Path, folder: Path) -> bool:
    try:
        return str(folder / "kubectl") in (pid / "cmdline").read_text(
            encoding="utf-8"
        )
    except OSError:
        return False


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_an_interrupt_leaves_the_run_running_by_default(
    path: str, kubectl: FakeKubectl, number: signal.Signals, code: int
) -> None:
    command = Command("run", "-f", path, "-n", "lab")
    command.until("Running")
    ended_with, output = command.interrupted(number)
    assert ended_with == code
    assert "Traceback" not in output
    assert not any("patch" in arguments for arguments in kubectl.commands())
    golden(output)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_with_the_option_it_is_cancelled_and_its_end_awaited(
    path: str, kubectl: FakeKubectl, number: signal.Signals
) -> None:
    kubectl.gives("get", "chat", body=run_body(running()), unless="--watch")
    kubectl.answer("patch", '--patch={"spec":{"cancel":true}}')
    kubectl.watch(run_body(running()), run_body(ended("Cancelled")))
    command = Command("run", "-f", path, "--cancel-on-interrupt")
    command.until("Running")
    ended_with, output = command.interrupted(number)
    assert (ended_with, "cancelling chat" in output) == (5, True), output
    assert "chat: Cancelled - ended: Cancelled" in output


def test_a_second_ctrl_c_does_not_wait(path: str, kubectl: FakeKubectl) -> None:
    kubectl.gives("get", "chat", body=run_body(running()), unless="--watch")
    kubectl.answer("patch")
    kubectl.watch(run_body(running()))
    command = Command("run", "-f", path, "--cancel-on-interrupt")
    command.until("Running")
    command.process.send_signal(signal.SIGINT)
    command.until("cancelling chat")
    ended_with, output = command.interrupted(signal.SIGINT)
    assert ended_with == 130
    assert "Traceback" not in output


INTERRUPTED_WHILE_A_LOOP_IS_MADE = """
import asyncio, os, signal
from benchrun.cli import interrupts

class Loop(asyncio.SelectorEventLoop):
    def _make_self_pipe(self):
        os.kill(os.getpid(), signal.SIGINT)
        super()._make_self_pipe()

async def main():
    print("begun")

asyncio.set_event_loop_policy(type("Policy", (asyncio.DefaultEventLoopPolicy,), {"_loop_factory": Loop})())
try:
    interrupts.run_interruptibly(main())
except KeyboardInterrupt as interrupt:
    print(interrupts.exit_code_of(interrupt))
"""


def test_an_interrupt_while_an_event_loop_is_made_leaves_no_traceback() -> None:
    child = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_A_LOOP_IS_MADE],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (child.stdout, child.stderr) == ("130\n", "")


def test_a_timeout_cancels_too_with_the_option(
    path: str, kubectl: FakeKubectl
) -> None:
    kubectl.gives("get", "chat", body=run_body(running()), unless="--watch")
    kubectl.answer("patch")
    kubectl.watch(run_body(ended("Cancelled")))
    command = Command("run", "-f", path, "--cancel-on-interrupt", "--timeout=1s")
    out, error = command.process.communicate(timeout=30)
    assert (command.process.returncode, "cancelling chat" in out) == (5, True), (
        out + error
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_just_being_created_is_cancelled_too(
    tmp_path: Path, kubectl: FakeKubectl, number: signal.Signals
) -> None:
    let_go = tmp_path / "let-go"
    file = tmp_path / "run.yaml"
    os.mkfifo(let_go)
    file.write_text(yaml.safe_dump(manifest(None)), encoding="utf-8")
    kubectl.answer("create", out=json.dumps(fresh("chat-x7f2k")), after=let_go)
    kubectl.gives("get", "chat-x7f2k", body=fresh("chat-x7f2k"), unless="--watch")
    kubectl.answer("patch", "chat-x7f2k")
    kubectl.watch(run_body(ended("Cancelled"), name="chat-x7f2k"))
    command = Command("run", "-f", str(file), "--cancel-on-interrupt")
    for _ in polling("kubectl is asked to create the run", seconds=30):
        if any("create" in arguments for arguments in kubectl.commands()):
            break
    # as a terminal does: kubectl gets it, too
    os.killpg(command.process.pid, number)
    let_go.write_text("go on", encoding="utf-8")
    out, error = command.process.communicate(timeout=30)
    assert (command.process.returncode, "cancelling chat-x7f2k" in out) == (
        5,
        True,
    ), out + error


def test_missing_permission_to_cancel_is_reported_without_waiting(
    path: str, kubectl: FakeKubectl
) -> None:
    kubectl.gives("get", "chat", body=run_body(running()), unless="--watch")
    kubectl.fails(
        "patch",
        error='Error from server (Forbidden): benchmarkruns.benchrun.dev "chat" is forbidden: User "eve" cannot patch '
        'resource "benchmarkruns" in API group "benchrun.dev" in the namespace "lab"',
    )
    command = Command("run", "-f", path, "--cancel-on-interrupt")
    command.until("Running")
    ended_with, output = command.interrupted(signal.SIGINT)
    assert ended_with == 1
    golden(output)


def test_one_that_has_ended_meanwhile_is_not_cancelled(
    path: str, kubectl: FakeKubectl
) -> None:
    kubectl.gives("get", "chat", body=run_body(ended()), unless="--watch")
    kubectl.watch(run_body(ended()))
    command = Command("run", "-f", path, "--cancel-on-interrupt")
    command.until("Running")
    assert command.interrupted(signal.SIGINT)[0] == 0
    assert not any("patch" in arguments for arguments in kubectl.commands())


def test_a_kubectl_that_does_not_end_is_killed_when_its_end_is_not_awaited_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "kubectl"
    script.write_text("#!/bin/sh\ntrap '' TERM\necho $$\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    async def pid_of_the_cancelled() -> int:
        first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def one_line() -> None:
            async with aclosing(Kubectl().lines("get")) as lines:
                async for line in lines:
                    first.set_result(int(line))
                    break

        task = asyncio.create_task(one_line())
        pid = await first
        task.cancel()
        assert isinstance(
            (await asyncio.gather(task, return_exceptions=True))[0],
            asyncio.CancelledError,
        )
        return pid

    assert not Path(f"/proc/{asyncio.run(pid_of_the_cancelled())}").exists()
