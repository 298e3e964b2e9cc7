"""What vLLM's log tells: why it failed, how it started, and which kernels it compiled while it served."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from benchrun.api import MAX_COMPILATIONS, Reason
from benchrun.observe.pod_failures import Evidence, diagnosed
from benchrun.observe.views import Diagnosis


@dataclass(frozen=True, slots=True)
class LogCause:
    """A cause that a server's log names, by phrases in any case."""

    reason: str
    what: str
    """What happened; the error's own words follow."""
    remedy: str
    phrases: tuple[str, ...]
    unless: str | None = None
    """A phrase that tells that it is another cause."""
    exit_code: int | None = None
    """None: any."""
    tries: int = 0
    """Endings until waiting is in vain."""

    def check(self, evidence: Evidence) -> Diagnosis | None:
        """The diagnosis, if the container has ended and its log names this cause."""
        if evidence.ending is None or self.exit_code not in (None, evidence.exit_code):
            return None
        if not evidence.says(*self.phrases) or (self.unless is not None and evidence.says(self.unless)):
            return None
        terminal = evidence.endings >= self.tries
        return diagnosed(self.reason, f"{self.what}: {evidence.words}", self.remedy, terminal=terminal)


_GATED_CAUSE = (
    Reason.MODEL_GATED,
    "The hub refuses this model",
    "Accept the model's conditions on the hub, put a token of that account into a Secret, "
    "and name it in spec.model.source.hub.tokenSecretRef.",
)
LOG_CAUSES = (
    LogCause(
        Reason.USAGE_ERROR,
        "vLLM refused its arguments",
        "Correct spec.server.args for this version of vLLM (vllm serve --help=all in the image lists its flags).",
        ("error: ",),
        exit_code=2,  # argparse's
    ),
    LogCause(  # a ValueError by form, so ahead of invalid_argument
        Reason.KV_CACHE_TOO_SMALL,
        "The KV cache is too small",
        "Lower --max-model-len, raise --gpu-memory-utilization, or use a larger GPU or more of them.",
        (
            "no available memory for the cache blocks",
            "which is larger than the available kv cache memory",
            # 0.8 and before
            "larger than the maximum number of tokens that can be stored in kv cache",
        ),
    ),
    LogCause(
        Reason.OUT_OF_GPU_MEMORY,
        "The GPU's memory is in use",
        "Lower --gpu-memory-utilization, or make sure that nothing else uses this GPU.",
        ("less than desired gpu memory utilization",),
        tries=2,  # what somebody else holds may come free
    ),
    LogCause(
        Reason.OUT_OF_GPU_MEMORY,
        "The GPU ran out of memory",
        "Use a larger GPU, more of them (--tensor-parallel-size), a smaller or quantized model, or fewer --max-num-seqs.",
        ("out of memory. tried to allocate", "outofmemoryerror", "cuda out of memory", "hip out of memory"),
    ),
    LogCause(  # ahead of not found, whose words mention gating
        *_GATED_CAUSE,
        (
            "cannot access gated repo",
            "you are trying to access a gated repo",
            "is a gated repository",
            "access to model",
            "gatedrepoerror",
        ),
    ),
    LogCause(  # a missing model is also a 401 there
        *_GATED_CAUSE,
        ("401 client error", "403 client error", "401 unauthorized", "403 forbidden"),
        unless="repository not found for url",
    ),
    LogCause(
        Reason.MODEL_NOT_FOUND,
        "The model was not found",
        "Check spec.model: name, revision, and that the source holds config.json and weights; a private model also needs "
        "spec.model.source.hub.tokenSecretRef.",
        (
            "is not a local folder and is not a valid model identifier",
            "invalid repository id or local directory specified",
            "repository not found for url",
            "revision not found for url",
            "is not a valid git identifier",
            "repo id must be in the form",
            "cannot find any model weights with",
            "does not appear to have a file named",
            "cannot find an appropriate cached snapshot folder",
            "no config file found",
        ),
    ),
    LogCause(
        Reason.MODEL_NOT_FOUND,
        "The model could not be downloaded",
        "Let the pod reach the hub, or take the model from spec.model.source.pvc, imageVolume or path.",
        (
            "we couldn't connect to 'http",
            "couldn't reach the hub",
            "nameresolutionerror",
            "max retries exceeded with url",
        ),
        tries=3,  # networks recover
    ),
)
"""In this order: the surest first."""


def invalid_argument(evidence: Evidence) -> Diagnosis | None:
    """A value was parsed and then refused: exit code 1 and the text of pydantic or a ValueError."""
    if evidence.exit_code != 1 or evidence.is_cause_hidden:
        return None
    refused = evidence.says("validation error for", "validation errors for")
    if not refused and not evidence.words.startswith("ValueError: "):
        return None
    remedy = "Correct spec.server.args or spec.model."
    return diagnosed(Reason.INVALID_ARGUMENT, f"vLLM refused a value: {evidence.words}", remedy)


# How a start is told, in seconds:
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


# How kernels compiled while serving are told:
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
