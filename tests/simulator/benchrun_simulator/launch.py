"""A simulator in a process of its own, for tests: started on a free port, ended with the block.

with running("tiny", "--sim-ttft-ms=100") as server:
    requests to server.url
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE_ROOT = Path(__file__).parents[1]
LISTENING = re.compile(r"Starting vLLM server on http://\S+:(\d+)")


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts connections."""

    url: str
    process: subprocess.Popen[str]


def command(*arguments: str) -> list[str]:
    """Return the command that executes `vllm serve` with these arguments."""
    return [sys.executable, str(SOURCE_ROOT / "vllm"), "serve", *arguments]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the process environment, with the package importable.

    The caller's vLLM and hub variables are left out.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "HF_"))
    }
    return {**inherited, "PYTHONPATH": str(SOURCE_ROOT), **(extra or {})}


@contextmanager
def running(
    *arguments: str, variables: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Start a server and wait until its port is open.

    Raises RuntimeError with the server's output if it ends instead.
    """
    words = command(*arguments, "--host=127.0.0.1", "--port=0")
    with subprocess.Popen(
        words,
        env=environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Running(f"http://127.0.0.1:{_listening_port(process)}", process)
        finally:
            process.kill()


def _listening_port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if found := LISTENING.search(line):
            return int(found[1])
    raise RuntimeError(f"the simulator did not start: {''.join(said)}")
