"""The project's client and `vllm bench serve` by turns against the same simulated server.

The question is whose figures are nearer to the server's log. Every round has three turns: one of
the project's client, and two of vLLM's own, in an order that changes from round to round. Each turn
sends the same load points, with the same seeds in a round. What the host does to the cores meets
all three alike. vLLM's two turns are compared with each other, too: their ratio shows how much
chance is in the other ratios.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from truth_kit.lab import Experiment, Failed, measure_at, read_log, stage_seeds
from truth_kit.physical import run_ahead
from truth_kit.processes import (
    TINY_MODEL,
    VLLM_PYTHON,
    VLLM_VARIABLES,
    Server,
    server,
)
from truth_kit.timing import (
    LATENCIES,
    Figures,
    Line,
    sending_span,
    stage_lines,
    true_figures,
)

OURS = "ours"
FIRST = "vLLM's"
SECOND = "vLLM's again"
ROUNDS = 6
"""Each order of the three turns once."""
FLAGS = ("--sim-ttft-ms=20", "--sim-tpot-ms=5")
PROMPT_TOKENS = 64
OUTPUT_TOKENS = 24
CLOCK_MS = 0.05
ROUNDING_PERCENT = 0.1
"""Errors in percent below this, or below CLOCK_MS, count as none: an event loop wakes no more
exactly than 0.05 ms, and tables have three digits."""
RESAMPLES = 2000
LOWER = 0.025
MAX_RATIO = 1.1
TTFT = "mean_ttft_ms"
FIGURES = (
    "output_throughput",
    *(
        f"{kind}_{latency}_ms"
        for latency in LATENCIES
        for kind in ("mean", "median")
    ),
)


Lines = Callable[[Sequence[Line]], Sequence[Line] | None]
"""Take the lines of a stage out of the log."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load point."""

    name: str
    requests: int
    rate: float | None = None
    users: int | None = None

    def workload(self) -> Mapping[str, Any]:
        """Return the load point as a workload of a BenchmarkRun spec."""
        load: Mapping[str, Any] = (
            {"concurrencies": [self.users]}
            if self.rate is None
            else {"requestRates": [f"{self.rate:g}"]}
        )
        data = {
            "random": {"inputTokens": PROMPT_TOKENS, "outputTokens": OUTPUT_TOKENS}
        }
        return {
            "name": self.name,
            "dataset": data,
            "load": load,
            "requests": self.requests,
        }

    def arguments(self, url: str, seed: int) -> Sequence[str]:
        """Return the load point as the arguments of `vllm bench serve`."""
        load = ["--max-concurrency", str(self.users)] if self.rate is None else []
        return [
            *(
                "--backend",
                "openai",
                "--base-url",
                url,
                "--endpoint",
                "/v1/completions",
            ),
            *(
                "--model",
                "tiny",
                "--tokenizer",
                str(TINY_MODEL),
                "--dataset-name",
                "random",
            ),
            *(
                "--random-input-len",
                str(PROMPT_TOKENS),
                "--random-output-len",
                str(OUTPUT_TOKENS),
            ),
            *(
                "--num-prompts",
                str(self.requests),
                "--seed",
                str(seed),
                "--temperature",
                "0",
            ),
            *(
                "--request-rate",
                "inf" if self.rate is None else f"{self.rate:g}",
                *load,
            ),
            *(
                "--percentile-metrics",
                ",".join(LATENCIES),
                "--save-detailed",
                "--disable-tqdm",
            ),
        ]


LOADS = (
    Load("slow", 100, rate=20),
    Load("quick", 200, rate=40),
    Load("users", 280, users=8),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """The errors of one load point in one turn, in percent of the truth."""

    client: str
    round: int
    load: str
    errors: Figures
    floors: Figures
    """Errors up to these values count as none."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The figures a client reported for one load point, and which requests those were."""

    client: str
    round: int
    load: Load
    told: Figures
    lines: Lines


async def measured(*, say: Callable[[str], None]) -> Mapping[str, float]:
    """Run all rounds, compare the clients' errors, and return the figures by name."""
    return compared(await _stages(say), say=say)


def compared(
    stages: Sequence[Stage], *, say: Callable[[str], None]
) -> Mapping[str, float]:
    """Compare the errors of the project's client with those of vLLM's."""
    theirs = (FIRST, SECOND)
    ratios = {figure: _ratio(stages, figure, (OURS,), theirs) for figure in FIGURES}
    least = {figure: _at_least(stages, figure) for figure in FIGURES}
    same = {
        figure: _ratio(stages, figure, (FIRST,), (SECOND,)) for figure in FIGURES
    }
    for figure in FIGURES:
        ours, vllm = (_mean_error(stages, figure, who) for who in ((OURS,), theirs))
        say(
            f"  {figure}: off by {ours:.3f} %, vLLM's client by {vllm:.3f} %; ratio "
            f"{ratios[figure]:.3f}, at least {least[figure]:.3f}; vLLM with itself "
            f"{same[figure]:.3f}"
        )
    return {
        "paired_stages": sum(stage.client == OURS for stage in stages),
        "paired_error_ratio": max(ratios.values()),
        "paired_error_ratio_at_least": max(least.values()),
        "paired_aa_ratio": max(max(ratio, 1 / ratio) for ratio in same.values()),
        "paired_found_from_ratio": MAX_RATIO * ratios[TTFT] / least[TTFT],
        "paired_ttft_error_percent": _mean_error(stages, TTFT, (OURS,)),
        "paired_vllm_ttft_error_percent": _mean_error(stages, TTFT, theirs),
    }


def errors(told: Figures, true: Figures) -> tuple[Figures, Figures]:
    """Return the error of each figure in percent, and the error that counts as none."""
    off = {
        name: 100 * abs(told[name] - true[name]) / true[name] for name in FIGURES
    }
    floors = {
        name: max(
            ROUNDING_PERCENT,
            100 * CLOCK_MS / true[name] if name.endswith("_ms") else 0.0,
        )
        for name in FIGURES
    }
    return off, floors


def _ratio(
    stages: Sequence[Stage], figure: str, ours: Sequence[str], theirs: Sequence[str]
) -> float:
    floor = fmean(stage.floors[figure] for stage in stages)
    above, below = (
        max(_mean_error(stages, figure, who), floor) for who in (ours, theirs)
    )
    return above / below


def _mean_error(
    stages: Sequence[Stage], figure: str, clients: Sequence[str]
) -> float:
    return fmean(
        stage.errors[figure] for stage in stages if stage.client in clients
    )


def _at_least(stages: Sequence[Stage], figure: str) -> float:
    """Return the lower end of a 95 % interval of the ratio, by resampling the rounds."""
    rounds = sorted({stage.round for stage in stages})
    by_round = {
        each: [stage for stage in stages if stage.round == each] for each in rounds
    }
    random = Random(1)
    ratios = sorted(
        _ratio(
            [
                s
                for each in random.choices(rounds, k=len(rounds))
                for s in by_round[each]
            ],
            figure,
            (OURS,),
            (FIRST, SECOND),
        )
        for _ in range(RESAMPLES)
    )
    return ratios[int(LOWER * RESAMPLES)]


async def _stages(say: Callable[[str], None]) -> Sequence[Stage]:
    """Run all turns, then compare each with the log.

    Raises Failed when requests failed or are not in the log.
    """
    turns: list[_Turn] = []
    with tempfile.TemporaryDirectory(prefix="paired-") as folder:
        async with AsyncExitStack() as stack:
            to = await stack.enter_async_context(
                server(Path(folder), FLAGS, environment={})
            )
            bench = await stack.enter_async_context(
                _bench(Path(folder) / "vllm.log")
            )
            await _answer(bench)  # The server is ready.
            run_ahead(bench, with_threads=True)
            # The server warms up, as with the project's client.
            await _theirs(FIRST, 0, bench, to)
            run_ahead(to.process, with_threads=True)
            for number, order in enumerate(permutations((OURS, FIRST, SECOND)), 1):
                for name in order:
                    turns += (
                        await _ours(number, to)
                        if name == OURS
                        else await _theirs(name, number, bench, to)
                    )
                say(f"  round {number} of {ROUNDS}")
        log = read_log(to)
    return [_stage(turn, log) for turn in turns]


def _stage(turn: _Turn, log: Sequence[Line]) -> Stage:
    lines = turn.lines(log)
    if lines is None:
        raise Failed(
            f"{turn.client} in round {turn.round}: its requests are not in the log"
        )
    off, floors = errors(turn.told, true_figures(lines, rate=turn.load.rate))
    return Stage(turn.client, turn.round, turn.load.name, off, floors)


def _experiment(number: int) -> Experiment:
    return Experiment(
        name=f"ours {number}",
        workloads=[load.workload() for load in LOADS],
        measurement={"warmup": {"auto": {}}, "order": "AsListed", "seed": number},
        client_ahead=True,
        threads_ahead=True,
        read_servers=False,
        traffic="paired",
    )


async def _ours(number: int, to: Server) -> Sequence[_Turn]:
    outcome = await measure_at(_experiment(number), to)
    rows = {row.workload: row for row in outcome.judged.results}
    return [
        _Turn(
            OURS,
            number,
            load,
            {name: rows[load.name].metrics.get(name) or 0.0 for name in FIGURES},
            _lines(*sending_span(record), len(record.requests.ok)),
        )
        for load, record in zip(LOADS, outcome.records, strict=True)
    ]


async def _theirs(
    name: str, number: int, bench: asyncio.subprocess.Process, to: Server
) -> Sequence[_Turn]:
    turns = []
    for load, seed in zip(LOADS, stage_seeds(_experiment(number), to), strict=True):
        assert bench.stdin is not None
        bench.stdin.write(json.dumps(load.arguments(to.url, seed)).encode() + b"\n")
        result = json.loads(await _answer(bench))
        if result["failed"]:
            raise Failed(f"{name}: {result['failed']} requests failed")
        starts = result["start_times"]
        turns.append(
            _Turn(
                name,
                number,
                load,
                {figure: result[figure] for figure in FIGURES},
                _lines(min(starts), max(starts), len(starts)),
            )
        )
    return turns


def _lines(first_sent: float, last_sent: float, requests: int) -> Lines:
    return partial(
        stage_lines, first_sent=first_sent, last_sent=last_sent, requests=requests
    )


@asynccontextmanager
async def _bench(log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start vLLM's own client, which then waits for loads, and yield its process."""
    with log.open("w") as errors_to:
        process = await asyncio.create_subprocess_exec(
            str(VLLM_PYTHON),
            str(Path(__file__).with_name("bench_process.py")),
            env={**os.environ, **VLLM_VARIABLES, "VLLM_LOGGING_LEVEL": "ERROR"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors_to,
            limit=1 << 26,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answer(bench: asyncio.subprocess.Process) -> bytes:
    assert bench.stdout is not None
    line = await bench.stdout.readline()
    if not line:
        raise Failed("vLLM's client ended")
    return line
