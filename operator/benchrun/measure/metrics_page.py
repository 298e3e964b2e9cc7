"""Parse the text of a server's metrics endpoint (Prometheus) into a `Sample` and `ServerFacts`.

The text has some 800 lines, of which a dozen matter. Only lines with the right beginnings are
parsed, which costs a hundredth of parsing everything. A value that no server can have is left out,
and counted.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

from benchrun_client.engines import Engine
from benchrun_client.engines.metrics_text import EXEMPLAR, is_whole, number

from benchrun.api import SAMPLE_FIGURES, Sample as Sample, plain_text
from benchrun.measure.request_figures import is_believable

MAX_SERIES = 4096
"""Most series of one endpoint that are read: 8 families of 512 engines, more than a server has."""
MAX_LINES = 65_536
"""Most lines of one endpoint, read or not; a server with eight engines has some 2,400."""
MAX_LINE_CHARS = 8192
"""Most characters of a line that is read; vLLM's cache_config_info has some 1,500."""
MAX_LABELS = 128
MAX_REPORTED = 35
"""Most reported labels that are kept; settings found in the server's log are added."""
OF_A_PROCESS = frozenset({"engine", "pid"})
"""Labels beside the settings that say which process reports them."""

COMBINE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": fmean,
    "max": max,
    "min": min,
}
"""Functions that combine the values of several series into one figure."""
_ANY_LINE = re.compile(r"#|[a-zA-Z_:][a-zA-Z0-9_:]*(\{|\s+[-+0-9NIni])")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(
    r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(?:,|$)'
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server reports about itself, read once it is healthy."""

    version: str | None = None
    kv_cache_tokens: int | None = None
    # Labels of the engine's `settings_series`, or its `answered_settings`.
    reported: dict[str, str] = field(default_factory=dict)


class UnreadableMetrics(ValueError):
    """The response is not the text of a metrics endpoint."""


class Series(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


@cache
def _sample_lines(engine: Engine) -> tuple[str, ...]:
    """Return the beginnings of the lines that a sample needs."""
    names = (*engine.sample_series.values(), *engine.sample_sums.values())
    series = dict.fromkeys(name for each in names for name in each)
    return tuple(name + end for name in series for end in ("{", " "))


def parse_sample(
    text: str, engine: Engine, *, at: float, role: str, pod: str
) -> Sample:
    """Parse one scrape into a sample; figures without a series of this engine are None.

    Raises UnreadableMetrics.
    """
    found, refused = series_of(text, _sample_lines(engine), labelled=False)
    values: dict[str, list[float]] = {}
    # With several engines, one without a value would make a sum too small, and a counter seem
    # to fall.
    lacking = {series.name for series in refused}
    for name, _, value in found:
        if name not in lacking:
            values.setdefault(name, []).append(value)
    for figure, parts in engine.sample_sums.items():
        if all(part in values for part in parts):
            values[figure] = [number for part in parts for number in values[part]]
    of_sums = {figure: (figure,) for figure in engine.sample_sums}
    figures: dict[str, Any] = combined(values, {**engine.sample_series, **of_sums})
    return Sample(at=at, role=role, pod=pod, **figures)


def combined(
    values: Mapping[str, Sequence[float]], series: Mapping[str, Sequence[str]]
) -> dict[str, float | None]:
    """Combine the values of each series into the figures of a sample.

    `series` has the series names of each figure; the first name that has values is used. A figure
    without a believable value is None.
    """
    found: dict[str, float | None] = {}
    for name, names in series.items():
        of_figure = next((values[each] for each in names if values.get(each)), None)
        figure = SAMPLE_FIGURES[name]
        value = (
            None
            if of_figure is None
            else figure.scale * COMBINE[figure.by](of_figure)
        )
        believed = value if value is not None and is_believable(value) else None
        found[name] = (
            round(believed, figure.decimals)
            if believed is not None and figure.decimals
            else believed
        )
    return found


def parse_facts(text: str, engine: Engine) -> ServerFacts:
    """Parse what the server reports of its cache and its settings.

    The labels are from the first engine process, the tokens are the sum over all. Raises
    UnreadableMetrics.
    """
    names = (*engine.cache_tokens_series, *engine.settings_series)
    if not names:
        return ServerFacts()
    found: dict[str, list[Series]] = {name: [] for name in names}
    for each in series_of(text, names)[0]:
        if each.name in found:
            found[each.name].append(each)
    settings = [found[name] for name in engine.settings_series]
    tokens = (
        _sizes([found[name] for name in engine.cache_tokens_series])
        if engine.cache_tokens_series
        else [engine.cache_tokens(each.labels) for of in settings for each in of]
    )
    total = sum(number for number in tokens if number is not None)
    is_known = tokens and None not in tokens and is_believable(total)
    return ServerFacts(
        kv_cache_tokens=total if is_known and total else None,
        reported=bounded_settings(
            {
                key: value
                for of in settings
                for each in of[:1]
                for key, value in each.labels.items()
                if key not in OF_A_PROCESS
            }
        ),
    )


def _sizes(series: Sequence[Sequence[Series]]) -> list[int]:
    """Return each engine process's product of these series; empty if one of them lacks a value."""
    alike = len({len(of) for of in series}) == 1
    every = zip(*series, strict=True) if alike else ()
    return [math.prod(int(each.value) for each in of) for of in every]


def bounded_settings(reported: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a server reports, bounded in number and length, by name."""
    found = {
        key[:100]: plain_text(value[:253])
        for key, value in sorted(reported.items())
        if not key.startswith("_") and value not in ("", "None")
    }
    return dict(list(found.items())[:MAX_REPORTED])


def series_of(
    text: str, starts: tuple[str, ...], *, labelled: bool = True
) -> tuple[list[Series], list[Series]]:
    """Parse the lines that begin with one of `starts` into believable series and all others.

    A value is believable if it is a number from 0 to 1e15. With `labelled` the labels are parsed
    too, which costs most. Raises UnreadableMetrics.
    """
    if text.count("\n") > MAX_LINES:
        raise UnreadableMetrics(f"more than {MAX_LINES} lines")
    lines = text.split("\n")
    first = next((line.strip()[:300] for line in lines[:20] if line.strip()), None)
    if first is not None and not _ANY_LINE.match(first):
        raise UnreadableMetrics(
            f"not the text of a metrics endpoint; it begins with {first[:60]!r}"
        )
    if not is_whole(text):
        raise UnreadableMetrics(
            "the page was cut, its exporter does not end its last line, or it holds two pages: "
            f"it ends with {text.strip()[-60:]!r}"
        )
    # To compare one short beginning costs a third of comparing all of `starts`.
    length = min(map(len, starts))
    heads = {start[:length] for start in starts}
    wanted = [
        line for line in lines if line[:length] in heads and line.startswith(starts)
    ]
    if len(wanted) > MAX_SERIES:
        raise UnreadableMetrics(
            f"it has {len(wanted)} of the series that benchrun reads; at most "
            f"{MAX_SERIES} are allowed"
        )
    series = []
    for line in wanted:
        try:
            series.append(_series(line, labelled))
        except ValueError:
            raise UnreadableMetrics(
                f"a metrics line can't be parsed: {line[:100]!r}"
            ) from None
    return [s for s in series if is_believable(s.value)], [
        s for s in series if not is_believable(s.value)
    ]


def _series(line: str, labelled: bool) -> Series:
    """Parse a line `name{label="value",..} 12.5 1700000000000`; labels and instant may be absent.

    An exemplar at its end, as OpenMetrics has it, is passed over.

    Raises ValueError.
    """
    name = _NAME.match(line)
    if name is None or len(line) > MAX_LINE_CHARS:
        raise ValueError
    rest = line.partition(EXEMPLAR)[0][name.end() :].strip()
    # A label may hold braces, the value and the instant may not.
    end = rest.rfind("}") + 1 if rest.startswith("{") else 0
    value, *instant = rest[end:].split()
    if len(instant) > 1:
        raise ValueError
    return Series(
        name[0],
        _labels(rest[1 : end - 1]) if end and labelled else {},
        number(value),
    )


def _labels(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    position = 0
    end = len(text.rstrip())
    for _ in range(MAX_LABELS):
        if position >= end:
            return found
        label = _LABEL.match(text, position)
        if label is None:
            break
        parts = label[2].split("\\\\")
        found[label[1]] = "\\".join(
            part.replace('\\"', '"').replace("\\n", "\n") for part in parts
        )
        position = label.end()
    raise ValueError("labels can't be parsed")
