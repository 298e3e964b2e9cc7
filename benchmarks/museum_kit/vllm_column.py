"""What `vllm bench serve` says where an exhibit is replayed through it.

Its arguments are the exhibit's load; its seed is its default. Load points are sent one after the
other to one server, as a loop in a shell does.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import truth_kit
from truth_kit.lab import Experiment
from truth_kit.processes import TINY_MODEL, VLLM_PYTHON, VLLM_VARIABLES, server

from museum_kit.said import Said, up, warnings_in

PATIENCE_SECONDS = 180.0


async def said_of(experiment: Experiment) -> Said:
    """Send the load of an experiment with `vllm bench serve`, and return what it says."""
    with tempfile.TemporaryDirectory(prefix="museum-") as name:
        folder = Path(name)
        async with (
            server(
                folder,
                experiment.servers[0],
                environment=dict(experiment.environment),
            ) as at,
            _bench(folder / "log") as bench,
        ):
            await up(at)
            failed = 0
            for arguments in _commands(experiment, at.url):
                result = await _result(bench, arguments)
                if result is None:
                    return Said(failed, ended=True)
                failed += result["failed"]
        return Said(failed, warnings=warnings_in(folder / "log"))


def _commands(experiment: Experiment, url: str) -> Iterator[Sequence[str]]:
    for _ in range(experiment.repeats):
        for workload in experiment.workloads:
            load = workload["load"]
            for rate in load.get("requestRates", ()):
                cap = load.get("maxConcurrency")
                yield _arguments(workload, url, rate, cap)
            for users in load.get("concurrencies", ()):
                yield _arguments(workload, url, "inf", users)


def _arguments(
    workload: Mapping[str, Any], url: str, rate: str, cap: int | None
) -> Sequence[str]:
    lengths = workload["dataset"]["random"]
    chat = workload.get("api") == "Chat"
    values = {
        "backend": "openai-chat" if chat else "openai",
        "base-url": url,
        "endpoint": "/v1/chat/completions" if chat else "/v1/completions",
        "model": "tiny",
        "tokenizer": TINY_MODEL,
        "dataset-name": "random",
        "random-input-len": lengths["inputTokens"],
        "random-output-len": lengths["outputTokens"],
        "num-prompts": workload["requests"],
        "request-rate": rate,
        "temperature": 0,
        **({"max-concurrency": cap} if cap is not None else {}),
    }
    words = [
        word for name, value in values.items() for word in (f"--{name}", str(value))
    ]
    return [*words, "--disable-tqdm"]


async def _result(
    bench: asyncio.subprocess.Process, arguments: Sequence[str]
) -> Mapping[str, Any] | None:
    assert bench.stdin is not None
    assert bench.stdout is not None
    bench.stdin.write(json.dumps(arguments).encode() + b"\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        line = await bench.stdout.readline()
    found: Mapping[str, Any] | None = json.loads(line) if line else None
    return found


@asynccontextmanager
async def _bench(log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start vLLM's benchmark, and yield its process once it waits for loads."""
    with log.open("w") as errors_to:
        process = await asyncio.create_subprocess_exec(
            str(VLLM_PYTHON),
            str(Path(truth_kit.__file__).with_name("bench_process.py")),
            env={**os.environ, **VLLM_VARIABLES, "VLLM_LOGGING_LEVEL": "WARNING"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors_to,
            limit=1 << 26,
        )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
