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
    """A server split in two, and its proxy; base URLs."""

    prefill: str
    decode: str
    proxy: str


@asynccontextmanager
async def split_server() -> AsyncIterator[Split]:
    """Run all three; they end with the block."""
    simulator = ("-m", "benchrun_simulator", "serve", "tiny", "--host=127.0.0.1", "--port=0")
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
        decode = await stack.enter_async_context(_running(*simulator, *decode_flags, until=started))
        words = ("-m", "benchrun_client.proxy", f"--prefill={prefill}", f"--decode={decode}")
        address = ("--address=127.0.0.1", "--port=0")
        proxy = await stack.enter_async_context(
            _running(*words, *address, until="the proxy answers on port ")
        )
        yield Split(prefill, decode, proxy)


@asynccontextmanager
async def _running(*words: str, until: str) -> AsyncIterator[str]:
    """A Python process, from the line on in which its port follows `until`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        env={**os.environ, "PYTHONPATH": f"{CLIENT_ROOT}{os.pathsep}{SIMULATOR_ROOT}"},
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
