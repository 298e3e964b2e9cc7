"""Two simulated servers and the proxy before them, as processes of this machine."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import benchrun_client

CLIENT_ROOT = Path(benchrun_client.__file__).parent.parent
SIMULATOR_ROOT = Path(__file__).parents[2] / "tests" / "simulator"
START_SECONDS = 60.0
PREFILL_MS = 30
DECODE_MS = 10
TOKEN_MS = 10
TRANSFER = '--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "%s"}'


class NotStarted(Exception):
    """A process ended, or never said that it is there."""


@dataclass(frozen=True, slots=True)
class Split:
    """The base URLs of a server split in two, and of its proxy."""

    prefill: str
    decode: str
    proxy: str


@asynccontextmanager
async def split_server() -> AsyncIterator[Split]:
    """Run all three processes for the duration of the block and yield their URLs."""
    simulator = (
        "-m",
        "benchrun_simulator",
        "serve",
        "tiny",
        "--host=127.0.0.1",
        "--port=0",
    )
    prefill_flags = (f"--sim-ttft-ms={PREFILL_MS}", TRANSFER % "kv_producer")
    decode_flags = (
        f"--sim-ttft-ms={DECODE_MS}",
        f"--sim-tpot-ms={TOKEN_MS}",
        TRANSFER % "kv_consumer",
    )
    async with contextlib.AsyncExitStack() as stack:
        started = "Starting vLLM server on http://127.0.0.1:"
        prefill = await stack.enter_async_context(
            _running(*simulator, *prefill_flags, until=started)
        )
        decode = await stack.enter_async_context(
            _running(*simulator, *decode_flags, until=started)
        )
        words = (
            "-m",
            "benchrun_client.proxy",
            "--engine=VLLM",
            f"--prefill={prefill}",
            f"--decode={decode}",
        )
        address = ("--address=127.0.0.1", "--port=0")
        proxy = await stack.enter_async_context(
            _running(*words, *address, until="the proxy answers on port ")
        )
        yield Split(prefill, decode, proxy)


@asynccontextmanager
async def _running(*words: str, until: str) -> AsyncIterator[str]:
    """Run a Python process and yield its URL once a line has its port after `until`.

    The process is killed at the end. Raises NotStarted when it ends first, and TimeoutError.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        env={
            **os.environ,
            "PYTHONPATH": f"{CLIENT_ROOT}{os.pathsep}{SIMULATOR_ROOT}",
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    reading = None
    try:
        port = await asyncio.wait_for(_port(process.stdout, until), START_SECONDS)
        reading = asyncio.create_task(process.stdout.read())
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _port(output: asyncio.StreamReader, until: str) -> int:
    async for line in output:
        _, found, rest = line.decode().partition(until)
        if found:
            return int(rest)
    raise NotStarted(until)
