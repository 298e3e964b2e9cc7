"""One metrics page (Prometheus text) of a vLLM server made into a `Sample`, or into what the server says of itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchrun.api import plain_text

# ---- samples ----------------------------------------------------------------------------------------------------------
# One reading of one server's metrics page.


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one server at one instant; None is "the page did not say", never 0. Summed over engines but kv_cache (mean)."""

    at: float
    """Unix seconds of the operator's clock, when the page arrived."""
    role: str
    pod: str
    running: float | None = None
    waiting: float | None = None
    kv_cache: float | None = None
    """0 .. 1, mean over engines."""
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    requests_finished: float | None = None
    preemptions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    start_time: float | None = None
    """process_start_time_seconds."""
    gpu_watts: float | None = None
    """Of the server's GPUs together; as the following, only in readings that an exporter's page was read for."""
    gpu_memory_mib: float | None = None
    """On the GPU that holds most."""
    sm_clock_mhz: float | None = None
    """Mean of the GPUs."""
    gpu_joules: float | None = None
    """Counter, of the GPUs together."""
    refused: int = field(default=0, compare=False)
    """Values of the page that no server can have; they are not among the figures. Counted where it is read, not kept."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself, read once it is healthy."""

    version: str | None = None
    kv_cache_tokens: int | None = None
    reported: dict[str, str] = field(default_factory=dict)
    """Labels of vLLM's cache_config_info, and max_model_len."""


def start_instant(told: float) -> float:
    """The start time of a process, as precise as it is kept (1 ms): two precisions of one instant would look like two
    processes."""
    return round(told, 3)


# ---- believable -------------------------------------------------------------------------------------------------------
# Which numbers of others are taken. A sum, a mean or a difference of such numbers is finite, however many there are.

GREATEST = 1e15
"""No gauge or counter of a server comes near it: a billion tokens a second for eleven days. Floats count by ones up to here."""


def is_believable(value: float) -> bool:
    """Whether a gauge or counter can say this: a number from 0 to 1e15. A NaN is none."""
    return 0 <= value <= GREATEST


# ---- exposition -------------------------------------------------------------------------------------------------------
# One metrics page (Prometheus text) of a vLLM server made into a `Sample`, or into what the server says of itself.
#
# A page has some 800 lines, of which a dozen matter: lines are picked by their beginning and only those are parsed, which
# costs a hundredth of parsing everything. A figure that the page does not have is None, never 0: `--disable-log-stats`
# leaves a page without any. A value that no server can have is as if it were not there, and counted.

MAX_SERIES = 4096
"""Wanted series on one page: 8 families of 512 engines. More is not a page of a vLLM server."""
MAX_LINES = 65_536
"""Lines of one page, wanted or not; a server of eight engines has some 2,400."""
MAX_LINE_CHARS = 8192
"""One wanted series; what vLLM says of its cache is the longest, some 1,500."""
MAX_LABELS = 128
MAX_REPORTED = 39
"""Labels kept of what a server reports of itself; one place is left for the model's length."""

_CACHE_CONFIG = "vllm:cache_config_info"
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "generation_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "requests_finished": ("vllm:request_success_total", "vllm:request_success"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prefix_queries": (
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries",
    ),
    "prefix_hits": (
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits",
    ),
    "start_time": ("process_start_time_seconds",),
}
"""Names of every figure, newest first: a page that has both counts once."""

_FIRST_CHARS = 300
_ANY_LINE = re.compile(r"#|[a-zA-Z_:][a-zA-Z0-9_:]*(\{|\s+[-+0-9NIni])")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(?:,|$)')


class UnreadablePage(ValueError):
    """What came back is not a metrics page."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of the wanted ones."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Read:
    """The wanted lines of a page."""

    series: tuple[Series, ...]
    refused: int
    """Lines whose value is not a number from 0 to 1e15; not among the series."""


def sample_from_page(text: str, *, at: float, role: str, pod: str) -> Sample:
    """Figures of one page, summed over engines (KV cache: their mean). Raises UnreadablePage."""
    values: dict[str, list[float]] = {}
    read = series_of(text, _SAMPLE_LINES)
    for series in read.series:
        values.setdefault(series.name, []).append(series.value)

    def total(figure: str) -> float | None:
        found = next((values[name] for name in _FAMILIES[figure] if name in values), None)
        return None if found is None else believable_sum(found)

    usage = next((values[name] for name in _FAMILIES["kv_cache"] if name in values), None)
    started = total("start_time")
    return Sample(
        at=at,
        role=role,
        pod=pod,
        running=total("running"),
        waiting=total("waiting"),
        kv_cache=None if usage is None else math.fsum(usage) / len(usage),
        generation_tokens=total("generation_tokens"),
        prompt_tokens=total("prompt_tokens"),
        requests_finished=total("requests_finished"),
        preemptions=total("preemptions"),
        prefix_queries=total("prefix_queries"),
        prefix_hits=total("prefix_hits"),
        start_time=None if started is None else start_instant(started),
        refused=read.refused,
    )


def believable_sum(values: Iterable[float]) -> float | None:
    """Of believable values; None where no server can have it."""
    total = math.fsum(values)
    return total if is_believable(total) else None


def facts_from_page(text: str) -> ServerFacts:
    """What the server says of its cache: labels of the first engine, tokens of all. Raises UnreadablePage."""
    engines = [series.labels for series in series_of(text, (_CACHE_CONFIG,)).series if series.name == _CACHE_CONFIG]
    if not engines:
        return ServerFacts()
    tokens = [_cache_tokens(labels) for labels in engines]
    total = sum(t for t in tokens if t is not None)
    reported = {
        key[:100]: plain_text(value[:253]) for key, value in sorted(engines[0].items()) if _says_something(key, value)
    }
    return ServerFacts(
        kv_cache_tokens=total if None not in tokens and is_believable(total) else None,
        reported=dict(list(reported.items())[:MAX_REPORTED]),
    )


def _says_something(key: str, value: str) -> bool:
    return key != "engine" and not key.startswith("_") and value not in ("", "None")


def _cache_tokens(labels: Mapping[str, str]) -> int | None:
    """Tokens one engine's cache holds: its own word (0.12 and later), else blocks x block size."""
    said = _whole(labels.get("kv_cache_size_tokens"))
    if said is not None:
        return said
    blocks, block_size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
    return None if blocks is None or block_size is None else blocks * block_size


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None


def _line_starts() -> tuple[str, ...]:
    names = [name for names in _FAMILIES.values() for name in names]
    return tuple(name + end for name in names for end in ("{", " "))


_SAMPLE_LINES = _line_starts()


def series_of(text: str, starts: tuple[str, ...]) -> Read:
    """The lines of a page that begin so. Raises UnreadablePage."""
    if text.count("\n") > MAX_LINES:
        raise UnreadablePage(f"more than {MAX_LINES} lines")
    lines = text.split("\n")
    first = next((line.strip()[:_FIRST_CHARS] for line in lines[:20] if line.strip()), None)
    if first is not None and not _ANY_LINE.match(first):
        raise UnreadablePage(f"not a metrics page; it begins with {first[:60]!r}")
    wanted = [line for line in lines if line.startswith(starts)]
    if len(wanted) > MAX_SERIES:
        raise UnreadablePage(f"{len(wanted)} series of the wanted families; at most {MAX_SERIES} are read")
    series = [_series(line) for line in wanted]
    kept = tuple(each for each in series if is_believable(each.value))
    return Read(kept, refused=len(series) - len(kept))


def _series(line: str) -> Series:
    """Of `name{label="value",..} 12.5 1700000000000`, where the labels and the instant may be absent. Raises UnreadablePage."""
    name = _NAME.match(line)
    if name is None or len(line) > MAX_LINE_CHARS:
        raise _unparsed(line)
    rest = line[name.end() :].strip()
    # A label may hold braces, what stands behind the labels may not.
    end = rest.rfind("}") + 1 if rest.startswith("{") else 0
    numbers = rest[end:].split()
    if not 1 <= len(numbers) <= 2:
        raise _unparsed(line)
    try:
        return Series(name=name[0], labels=_labels(rest[1 : end - 1]) if end else {}, value=float(numbers[0]))
    except ValueError:
        raise _unparsed(line) from None


def _labels(text: str) -> Mapping[str, str]:
    """Raises ValueError."""
    found: dict[str, str] = {}
    position, end = 0, len(text.rstrip())
    for _ in range(MAX_LABELS):
        if position >= end:
            return found
        label = _LABEL.match(text, position)
        if label is None:
            break
        found[label[1]] = _unescaped(label[2])
        position = label.end()
    raise ValueError("labels can't be parsed")


def _unescaped(value: str) -> str:
    parts = value.split("\\\\")
    return "\\".join(part.replace('\\"', '"').replace("\\n", "\n") for part in parts)


def _unparsed(line: str) -> UnreadablePage:
    return UnreadablePage(f"a metrics line can't be parsed: {line[:100]!r}")
