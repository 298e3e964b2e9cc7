"""The operator as a process beside a real API server: it starts, works, leaves no trace on the
user's object, and goes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.kubectl import RUN, Namespace, Object
from kit.polling import polling
from kit.runs import simulated_run

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60.0
STOP_SECONDS = 5.0


class Process:
    """An operator for one namespace."""

    def __init__(self, namespace: Namespace, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        environment = os.environ | {
            "PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT / 'client-image'}",
            "BENCHRUN_NAMESPACES": namespace.name,
            "BENCHRUN_NAMESPACE": namespace.name,
            "BENCHRUN_CLIENT_IMAGE": "client.invalid/none",
            "BENCHRUN_LISTEN": f"127.0.0.1:{self._port}",
        }
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchrun.runtime"],
                env=environment,
                stderr=output,
            )

    def page(self, path: str) -> str:
        """A page of the health server; empty while there is none or it says no."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}{path}", timeout=5
            ) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return ""

    def until(self, path: str, pattern: str) -> str:
        """The page, once it matches."""
        page = ""
        for _ in polling(f"{path} says {pattern!r}", seconds=READY_SECONDS):
            assert self._process.poll() is None, "the operator ended by itself"
            if re.search(pattern, page := self.page(path)):
                break
        return page

    def writes(self) -> dict[str, float]:
        """Successful writes so far, by verb and resource."""
        lines = re.findall(
            r'^benchrun_api_writes_total\{code="2xx",(.*)\} (.*)$',
            self.page("/metrics"),
            re.MULTILINE,
        )
        return {labels: float(count) for labels, count in lines}

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """End it; its exit code, and how long it took."""
        began = time.monotonic()
        self._process.send_signal(how)
        return self._process.wait(timeout=60), time.monotonic() - began

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None


@pytest.fixture
def operators(namespace: Namespace, tmp_path: Path) -> Iterator[list[Process]]:
    """Operators that a test started; none is left afterwards."""
    started: list[Process] = []
    yield started
    for process in started:
        if not process.ended:
            process.stop(signal.SIGKILL)


def start(
    operators: list[Process], namespace: Namespace, tmp_path: Path
) -> Process:
    process = Process(namespace, tmp_path / "operator.log")
    operators.append(process)
    process.until("/readyz", "ready")
    return process


def noticed(run: Object) -> bool:
    return bool(run.get("status", {}).get("phase") == "Suspended")


def settled(process: Process) -> None:
    """Until the watches go on from what was listed, and no pass is due; there are runs."""
    process.until("/metrics", r"benchrun_watch_silence_seconds 0\.0")
    process.until("/metrics", r"benchrun_queue_depth 0\.0")


def test_run_is_worked_on_and_nothing_is_left_on_it(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    process = start(operators, namespace, tmp_path)
    namespace.apply(simulated_run("first", suspend=True))
    run = namespace.wait_for(
        RUN, "first", noticed, timeout_seconds=30, what="noticed"
    )
    meta = run["metadata"]
    assert meta.get("finalizers") is None
    assert [
        a
        for a in meta.get("annotations", {})
        if not a.startswith("kubectl.kubernetes.io/")
    ] == []
    assert process.page("/healthz") == "ok\n"


def test_restart_writes_nothing_when_nothing_happened(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    first = start(operators, namespace, tmp_path)
    namespace.apply(
        simulated_run("first", suspend=True), simulated_run("second", suspend=True)
    )
    for name in ("first", "second"):
        namespace.wait_for(RUN, name, noticed, timeout_seconds=30, what="noticed")
    first.stop(signal.SIGKILL)
    versions = {
        r["metadata"]["name"]: r["metadata"]["resourceVersion"]
        for r in namespace.list(RUN)
    }
    second = start(operators, namespace, tmp_path)
    settled(second)
    assert second.writes() == {}
    assert {
        r["metadata"]["name"]: r["metadata"]["resourceVersion"]
        for r in namespace.list(RUN)
    } == versions


def test_what_happened_while_the_operator_was_away_is_made_good(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    start(operators, namespace, tmp_path).stop()
    namespace.apply(simulated_run("meanwhile", suspend=True))
    start(operators, namespace, tmp_path)
    namespace.wait_for(
        RUN, "meanwhile", noticed, timeout_seconds=30, what="noticed"
    )


def test_termination_is_clean_and_quick(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    namespace.apply(simulated_run("watched", suspend=True))
    process = start(operators, namespace, tmp_path)
    # Kopf takes 5 s to give up when it is told to stop before it has begun to watch.
    settled(process)
    code, seconds = process.stop()
    assert code == 0
    assert seconds < STOP_SECONDS


def test_bad_setting_ends_the_process_with_a_word_about_it() -> None:
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT / 'client-image'}"
    }
    environment["BENCHRUN_WORKERS"] = "many"
    done = subprocess.run(
        [sys.executable, "-m", "benchrun.runtime"],
        env=environment | {"BENCHRUN_CLIENT_IMAGE": "x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert (
        "BENCHRUN_WORKERS is 'many': must be a whole number from 1 to 64"
        in done.stderr
    )
