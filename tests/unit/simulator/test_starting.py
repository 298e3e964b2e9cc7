"""The process from its start to its end."""

import signal
import subprocess
import time
from collections.abc import Callable
from http.client import HTTPConnection

import pytest
from benchrun_client.engines import ENGINES, StartupPhases
from benchrun_simulator.launch import Running, command, environment, running
from kit.local_servers import free_port

VLLM = ENGINES["VLLM"]

Serve = Callable[..., Running]
HEAVY = {"numpy", "pandas", "scipy", "torch", "transformers", "vllm"}
"""What takes seconds to import; the simulator is healthy long before."""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command("tiny", *arguments, "--port=0"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()


def seconds_until_healthy(*arguments: str) -> float:
    port = free_port()
    started = time.monotonic()
    words = command("tiny", *arguments, "--host=127.0.0.1", f"--port={port}")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.DEVNULL
    ) as process:
        while not healthy(port):
            assert process.poll() is None
        took = time.monotonic() - started
        process.kill()
    return took


def test_nothing_is_imported_that_would_keep_it_from_being_healthy_soon() -> None:
    python, *module = command("--help")
    info = subprocess.run(
        [python, "-X", "importtime", *module],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stderr
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in info.splitlines()
    }
    assert "benchrun_simulator" in imported
    assert imported & HEAVY == set()


def test_the_port_is_closed_while_it_loads() -> None:
    assert seconds_until_healthy("--sim-load-seconds=1.5") >= 1.5


def test_the_log_tells_how_long_it_loaded() -> None:
    words = command(
        "tiny", "--sim-load-seconds=0.5", "--host=127.0.0.1", "--port=0"
    )
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        output = "".join(
            iter(
                process.stdout.readline, "INFO:     Application startup complete.\n"
            )
        )
        process.kill()
    phases = VLLM.startup_phases(output)
    assert phases.load is not None
    assert 0.5 <= phases.load < 30
    assert phases == StartupPhases(load=phases.load, warm_up=0.0)


def test_sigterm_ends_it_at_once(serve: Serve) -> None:
    server = serve("--sim-tpot-ms=1000")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=10) == 0


def test_sigterm_ends_it_while_it_loads() -> None:
    words = command("tiny", "--sim-load-seconds=600")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "non-default args: {'model_tag': 'tiny'" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("argument", "code", "words"),
    [
        (
            "--sim-fail-start=oom-gpu",
            1,
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        ("--sim-fail-start=segfault", 139, "Segmentation fault"),
        ("--sim-fail-start=killed", 137, "Killed"),
    ],
)
def test_a_failed_start_says_why_and_ends(
    argument: str, code: int, words: str
) -> None:
    ended = run(argument)
    assert ended.returncode == code
    assert words in ended.stderr


def test_noise_fills_the_log() -> None:
    ended = run("--sim-log-noise-mb=2", "--sim-fail-start=crash")
    assert 2_000_000 * 0.99 <= len(ended.stdout) <= 2_000_000 * 1.01


def test_a_start_that_fails_is_reported_by_the_launcher() -> None:
    with (
        pytest.raises(
            RuntimeError, match="No available memory for the cache blocks"
        ),
        running("tiny", "--sim-fail-start=no-kv-cache-memory"),
    ):
        pass


def test_a_headless_worker_loads_listens_nowhere_and_ends_on_sigterm() -> None:
    port = free_port()
    group = [
        "--nnodes=2",
        "--node-rank=1",
        "--master-addr=leader.example",
        "--headless",
        f"--port={port}",
    ]
    words = command("tiny", *group, "--host=127.0.0.1")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any(
            "headless" in line and "Launching" in line for line in process.stdout
        )
        assert not healthy(port)
        process.terminate()
        assert process.wait(timeout=10) == 0
