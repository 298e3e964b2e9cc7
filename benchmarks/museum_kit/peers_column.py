"""What guidellm, AIPerf and inference-perf say where an exhibit is replayed through them.

Each is installed in an environment of its own, below `PEERS`, at the release that the page names.
They get the exhibit's load and lengths of tokens, and nothing else beyond their defaults. How many
requests failed is read from their files by our readers.
"""

import asyncio
import json
import os
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchrun.foreign.document import Unreadable, documents
from benchrun.foreign.model import Source
from benchrun.foreign.readers import READERS
from truth_kit.lab import Experiment
from truth_kit.processes import CACHE, TINY_MODEL, server

from museum_kit.said import Said, can_replay, up, warnings_in

PEERS = CACHE / "peers"
PATIENCE_SECONDS = 400.0
TOKENIZER = "local/tiny"
"""Path from the folder in which tools run: AIPerf takes no other for a folder."""


@dataclass(frozen=True, slots=True)
class Load:
    """One load point, as a tool is told it."""

    url: str
    is_chat: bool
    input_tokens: int
    output_tokens: int
    requests: int
    rate: float | None  # None: users.
    cap: int | None  # Users, or the cap of a rate.


Command = Callable[[Load, Path], Sequence[str]]
"""Arguments of a tool for a load, with the folder for its files."""


def replays(tool: str, experiment: Experiment) -> bool:
    """Return whether a tool can be told every load of the experiment."""
    loads = list(_loads(experiment, "")) if can_replay(experiment) else []
    return bool(loads) and all(_CAN[tool](each) for each in loads)


async def said_of(tool: str, experiment: Experiment) -> Said:
    """Send the loads of an experiment with a tool, and return what it says."""
    with tempfile.TemporaryDirectory(prefix="museum-") as name:
        folder = Path(name)
        (folder / "local").mkdir()
        (folder / TOKENIZER).symlink_to(TINY_MODEL)
        flags = experiment.servers[0]
        environment = dict(experiment.environment)
        async with server(folder, flags, environment=environment) as at:
            await up(at)
            failed = 0
            for number, load in enumerate(_loads(experiment, at.url)):
                out = folder / str(number)
                out.mkdir()
                await _run(tool, _COMMANDS[tool](load, out), folder / "log")
                found = _failed(tool, out)
                if found is None:
                    return Said(failed, ended=True)
                failed += found
        return Said(failed, warnings=warnings_in(folder / "log"))


async def _run(tool: str, arguments: Sequence[str], log: Path) -> None:
    """Run a tool to its end; one that does not end is killed, and has no result."""
    quiet = {"NO_COLOR": "1", "COLUMNS": "200"}
    if tool not in _ONLINE:
        quiet["HF_HUB_OFFLINE"] = "1"
    own = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.lower().endswith("_proxy")
    }
    with log.open("a") as output:
        process = await asyncio.create_subprocess_exec(
            str(PEERS / tool / "bin" / tool),
            *arguments,
            cwd=log.parent,
            env={**own, **quiet},
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _failed(tool: str, folder: Path) -> int | None:
    """Return how many requests failed by the tool's files; None if it left no result."""
    reader = READERS[tool]
    files = sorted(path for glob in reader.globs for path in folder.rglob(glob))
    try:
        sources = [
            Source(
                str(path.parent),
                documents(str(path), path.read_bytes(), remedy=reader.remedy),
            )
            for path in files
        ]
        stages = reader.read(sources) if sources else []
    except Unreadable:
        return None
    return sum(stage.failed for stage in stages) if stages else None


def _loads(experiment: Experiment, url: str) -> Iterator[Load]:
    for _ in range(experiment.repeats):
        for workload in experiment.workloads:
            lengths = workload["dataset"]["random"]
            load = workload["load"]
            of_load = partial(
                Load,
                url,
                workload.get("api") == "Chat",
                lengths["inputTokens"],
                lengths["outputTokens"],
                workload["requests"],
            )
            for rate in load.get("requestRates", ()):
                yield of_load(float(rate), load.get("maxConcurrency"))
            for users in load.get("concurrencies", ()):
                yield of_load(None, users)


def _guidellm(load: Load, out: Path) -> Sequence[str]:
    profile: dict[str, Any] = (
        {"kind": "concurrent", "streams": [load.cap]}
        if load.rate is None
        else {"kind": "throughput"}
        if load.rate == float("inf")
        else {"kind": "poisson", "rate": [load.rate]}
    )
    if load.rate is not None and load.cap is not None:
        profile["max_concurrency"] = load.cap
    kind = "chat/completions" if load.is_chat else "completions"
    spec = {
        "backend": {
            "kind": "openai_http",
            "target": load.url,
            "model": "tiny",
            "request_format": f"/v1/{kind}",
        },
        "profile": profile,
        "constraints": [{"kind": "max_requests", "count": load.requests}],
        "tokenizer": {"kind": "huggingface_auto", "model": str(TINY_MODEL)},
        "data": [
            {
                "kind": "synthetic_text",
                "prompt_tokens": load.input_tokens,
                "output_tokens": load.output_tokens,
            }
        ],
        "outputs": [{"kind": "json", "path": str(out / "benchmarks.json")}],
    }
    scenario = out.with_suffix(".scenario.json")
    scenario.write_text(json.dumps({"spec": spec}))
    return ["run", "--config", str(scenario), "--disable-console-interactive"]


def _aiperf(load: Load, out: Path) -> Sequence[str]:
    values: Mapping[str, object] = {
        "model": "tiny",
        "url": load.url,
        "endpoint-type": "chat" if load.is_chat else "completions",
        "tokenizer": TOKENIZER,
        "isl": load.input_tokens,
        "osl": load.output_tokens,
        "extra-inputs": "ignore_eos:true",
        "request-count": load.requests,
        "output-artifact-dir": out,
        "ui": "none",
        **({} if load.rate is None else {"request-rate": load.rate}),
        **({} if load.cap is None else {"concurrency": load.cap}),
    }
    words = [word for key, value in values.items() for word in (f"--{key}", value)]
    return ["profile", "--streaming", *map(str, words)]


def _inference_perf(load: Load, out: Path) -> Sequence[str]:
    stage = (
        {"num_requests": load.requests, "concurrency_level": load.cap}
        if load.rate is None
        else {
            "rate": load.rate,
            "duration": max(1, round(load.requests / load.rate)),
        }
    )
    lengths = {
        f"{side}_distribution": {
            "min": tokens,
            "max": tokens,
            "mean": tokens,
            "std_dev": 0,
            "total_count": load.requests,
        }
        for side, tokens in (
            ("input", load.input_tokens),
            ("output", load.output_tokens),
        )
    }
    config = {
        "load": {
            "type": "concurrent" if load.rate is None else "poisson",
            "stages": [stage],
            "num_workers": 1,
            **(
                {}
                if load.rate is None or load.cap is None
                else {"worker_max_concurrency": load.cap}
            ),
        },
        "api": {
            "type": "chat" if load.is_chat else "completion",
            "streaming": True,
        },
        "server": {
            "type": "vllm",
            "model_name": "tiny",
            "base_url": load.url,
            "ignore_eos": True,
        },
        "tokenizer": {"pretrained_model_name_or_path": str(TINY_MODEL)},
        "data": {"type": "random", **lengths},
        "report": {"request_lifecycle": {"per_stage": True}},
        "storage": {"local_storage": {"path": str(out)}},
    }
    file = out.with_suffix(".config.yml")
    file.write_text(json.dumps(config))  # JSON is YAML.
    return ["--config_file", str(file)]


def _is_finite(load: Load) -> bool:
    return load.rate is None or load.rate < float("inf")


_COMMANDS: Mapping[str, Command] = {
    "guidellm": _guidellm,
    "aiperf": _aiperf,
    "inference-perf": _inference_perf,
}
_ONLINE = frozenset({"aiperf"})
"""Tools that load a tokenizer from a folder only where they may ask the hub, too."""
_CAN: Mapping[str, Callable[[Load], bool]] = {
    "guidellm": lambda load: True,
    "aiperf": _is_finite,
    "inference-perf": lambda load: _is_finite(load) and not load.is_chat,
}
"""Whether a tool has such a load; inference-perf has no chats of random words."""
