"""What vLLM's log tells of its start and of kernels compiled while it served."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from benchrun.api import MAX_COMPILATIONS

# ---- startup log ------------------------------------------------------------------------------------------------------
# What vLLM's log tells of its own start, in seconds.
#
#     Time spent downloading weights for org/model: 12.345678 seconds
#     Loading weights took 2.13 seconds
#     Model loading took 14.99 GiB memory and 15.678901 seconds               all of the above, and making the model
#     torch.compile took 22.10 s in total                                     "takes" in older versions
#     init engine (profile, create kv cache, warmup model) took 47.64 s       "seconds" in older versions; the one before in it
#     init engine (...) took 212.68 s (compilation: 13.01 s)
#
# Lines of one process add up: a draft model is loaded after the model it drafts for. Of several processes, the ranks of a
# server, the slowest counts: the others wait for it.

_SECONDS = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_PROCESS = re.compile(r"\((.{1,80}? pid=[0-9]{1,10})\) ")
_LINES: Mapping[str, re.Pattern[str]] = {
    "download": re.compile(rf"Time spent downloading weights for .{{1,1024}}: {_SECONDS} seconds"),
    "weights": re.compile(rf"\bLoading weights took {_SECONDS} seconds"),
    "model": re.compile(rf"\bModel loading took .{{1,40}} and {_SECONDS} seconds"),
    "compile": re.compile(
        rf"torch\.compile (?:takes|took|and initial profiling/warmup run together took) {_SECONDS} s in total"
    ),
    "engine": re.compile(rf"\binit engine \(.{{1,80}}\) took {_SECONDS} s"),
    "engine_compile": re.compile(rf"\binit engine \(.{{1,80}}\) took .{{1,40}}\(compilation: {_SECONDS} s"),
}


_WORDS = (" took ", " takes ", "Time spent ")
"""A line that has none of them tells nothing: most are not looked at more closely."""
_MAX_LINES = 1000
_MIN_LINE_CHARS = 20
_MAX_LINE_CHARS = 2048


@dataclass(frozen=True, slots=True)
class StartupPhases:
    """Disjoint parts of a start, in seconds; None is "the log does not say", never 0."""

    download: float | None = None
    load: float | None = None
    compile: float | None = None
    warm_up: float | None = None


def startup_phases(log: str) -> StartupPhases:
    """Of the log from its beginning; as far as it goes."""
    found = _slowest(log)
    download, engine = found.get("download"), found.get("engine")
    compiled = found.get("engine_compile", found.get("compile"))
    return StartupPhases(
        download=download,
        load=_less(found["model"], download) if "model" in found else found.get("weights"),
        compile=compiled,
        warm_up=None if engine is None else _less(engine, compiled),
    )


def _slowest(log: str) -> Mapping[str, float]:
    """By kind of line, the most that any process spent."""
    spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    lines = (line for line in log.splitlines() if len(line) >= _MIN_LINE_CHARS and any(word in line for word in _WORDS))
    for line in (each[:_MAX_LINE_CHARS] for each in islice(lines, _MAX_LINES)):
        for kind, pattern in _LINES.items():
            told = pattern.search(line)
            if told is not None:
                spent[kind][_process(line)] += float(told[1])
    return {kind: max(by_process.values()) for kind, by_process in spent.items()}


def _process(line: str) -> str:
    found = _PROCESS.match(line)
    return found[1] if found is not None else ""


def _less(whole: float, part: float | None) -> float:
    return round(max(0.0, whole - (part or 0.0)), 6)


# ---- compilations -----------------------------------------------------------------------------------------------------
# Kernels that a server compiled while it served, as vLLM's log tells.
#
#     2026-11-21T12:00:00.123456789Z (EngineCore_0 pid=7) WARNING ... Triton kernel JIT compilation during inference: f. ...
#
# Each stands for a pause in that instant's answers: the warm-up did not reach that shape. By default vLLM says it once a
# kernel; the instant before the line is the kubelet's.

SAID = "JIT compilation during inference"


def compilations(log: str, *, complete: bool) -> tuple[float, ...] | None:
    """When, in Unix seconds, in order. None: the log was not read to its end, or tells of more than are kept: what is missing
    might lie in any stage."""
    if not complete:
        return None
    told = (_instant(line) for line in log.splitlines() if SAID in line)
    found = tuple(sorted(at for at in told if at is not None))
    return found if len(found) <= MAX_COMPILATIONS else None


def _instant(line: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(line.partition(" ")[0])
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
