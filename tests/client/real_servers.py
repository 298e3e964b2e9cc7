"""Real vLLM servers, as processes of this machine."""

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from client.processes import VLLM_PYTHON, free_port
from kit.polling import polling

START_SECONDS = 420.0
"""Of a server: 75 s of CPU, beside other work several times that."""
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@dataclass(frozen=True, slots=True)
class VllmServer:
    """A server that may still be loading."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """End it and all its processes as a machine does that fails."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_healthy(self) -> None:
        for _ in polling("vLLM is healthy", seconds=START_SECONDS):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                continue


@contextmanager
def vllm_server(
    model: Path, flags: Sequence[str], log: Path
) -> Iterator[VllmServer]:
    """Start a server; it ends with the block."""
    port = free_port()
    # On CPUs it wants 92 % of the machine's memory to be free, unless told otherwise.
    own = (
        f"--port={port}",
        "--host=127.0.0.1",
        "--enforce-eager",
        "--gpu-memory-utilization=0.1",
    )
    with vllm_process(
        [VLLM_PYTHON.with_name("vllm"), "serve", model, *own, *flags], port, log
    ) as server:
        yield server


@contextmanager
def vllm_process(
    words: Sequence[str | Path], port: int, log: Path
) -> Iterator[VllmServer]:
    """Start a server by a whole command, which names the port; it ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            env={**os.environ, **VARIABLES},
            stdout=output,
            stderr=subprocess.STDOUT,
            # It leads a group of processes, which end together.
            start_new_session=True,
        )
    server = VllmServer(f"http://127.0.0.1:{port}", process, log)
    try:
        yield server
    finally:
        if process.poll() is None:
            server.kill()
