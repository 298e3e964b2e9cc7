"""The block that `vllm bench serve` prints at its end, for a load point or a stage.

It has vLLM's lines, names and units, in its order. Figures are always of whole stages, as vLLM's
own are.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from benchrun.api import BenchmarkRunStatus, Result, StageResult
from benchrun.measure import LATENCIES, WHOLE_LATENCIES

TITLE = "Serving Benchmark Result"
NOT_COUNTED = "not counted by the server"
NOT_MEASURED = "not measured"
NOT_KEPT = "not in the status"
WIDTH = 50
NAME_WIDTH = 40
DIGITS = 5  # Significant digits of a figure in the status; further digits would not be measured.
_HEADINGS: Mapping[str, str] = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
}
_COUNTS: Mapping[str, str] = {
    "completed": "Successful requests:",
    "failed": "Failed requests:",
}
_TOKENS: Mapping[str, str] = {
    "total_input_tokens": "Total input tokens:",
    "total_output_tokens": "Total generated tokens:",
}
_PERCENTILE = re.compile(
    r"p([0-9]{1,3}(?:\.[0-9]{1,9})?)_(?:ttft|tpot|itl|e2el)_ms"
)
_OF_OUTPUT = ("total_output_tokens", "output_throughput", "total_token_throughput")
"""Figures that need the server's count of the tokens of its answers."""


class Block(NamedTuple):
    """The block of one load point with its repeats pooled, or of one stage."""

    name: str
    text: str


def blocks(status: BenchmarkRunStatus) -> list[Block]:
    """Return one block for each load point that was measured.

    Repeats are pooled: requests, tokens and seconds are sums.
    """
    return [
        Block(_name(row), _text(row.metrics, whole=row.has_whole_answers))
        for row in status.results
        if row.repeats
    ]


def _name(row: Result) -> str:
    return (
        row.load_point
        if row.repeats == 1
        else f"{row.load_point}, {row.repeats} repeats pooled"
    )


def block_of_stage(stage: StageResult) -> Block:
    """Return the block of one stage, with all digits of the load generator's own figures.

    A figure without a real value is left out, even if vLLM prints a number for it: 0 for a latency
    that was not measured, or tokens that it counted itself from the text.
    """
    own = {
        key: value if (exact := stage.engine_figures.get(key)) is None else exact
        for key, value in stage.metrics.items()
        if value is not None
    }
    whole = stage.has_whole_answers
    return Block(stage.id, _text(own, decimals=2, whole=whole))


def _text(
    figures: Mapping[str, float | None],
    *,
    decimals: int | None = None,
    whole: bool = False,
) -> str:
    """Format figures as a block.

    `decimals` is for measured values; None means five significant digits with at most two decimals.
    `whole`: answers have no tokens, and the block is that of vLLM's embeddings.
    """
    shown = [
        f"{f' {TITLE} ':=^{WIDTH}}",
        *(_count(figures, key, name) for key, name in _COUNTS.items()),
        _measure(figures, "duration", "Benchmark duration (s):", decimals),
        *(
            _count(figures, key, name)
            for key, name in _TOKENS.items()
            if not (whole and key in _OF_OUTPUT)
        ),
        _measure(
            figures, "request_throughput", "Request throughput (req/s):", decimals
        ),
        *_goodput(figures, decimals),
        *(
            []
            if whole
            else [
                _measure(
                    figures,
                    "output_throughput",
                    "Output token throughput (tok/s):",
                    decimals,
                )
            ]
        ),
        _measure(
            figures,
            "total_token_throughput",
            "Total token throughput (tok/s):",
            decimals,
        ),
    ]
    words = _percentile_words(figures)
    for latency in WHOLE_LATENCIES if whole else LATENCIES:
        shown.append(f"{_HEADINGS[latency]:-^{WIDTH}}")
        for word in ("mean", "median", *words):
            name = f"{word.capitalize()} {latency.upper()} (ms):"
            shown.append(_measure(figures, f"{word}_{latency}_ms", name, decimals))
    shown.append("=" * WIDTH)
    return "\n".join(shown)


def _goodput(
    figures: Mapping[str, float | None], decimals: int | None
) -> Iterator[str]:
    """Yield the line of goodput, which vLLM prints only if limits were given."""
    if "request_goodput" in figures:
        yield _measure(
            figures, "request_goodput", "Request goodput (req/s):", decimals
        )


def _percentile_words(figures: Mapping[str, float | None]) -> list[str]:
    """Return the percentiles that any latency has, lowest first: `p50`, `p99`."""
    found = {
        match[1]
        for key in figures
        if (match := _PERCENTILE.fullmatch(key)) is not None
    }
    return [f"p{word}" for word in sorted(found, key=float)]


def _measure(
    figures: Mapping[str, float | None], key: str, name: str, decimals: int | None
) -> str:
    value = figures.get(key)
    if value is None:
        return _line(name, _absent(key, figures))
    if decimals is None:
        whole_digits = len(f"{abs(value):.0f}")
        decimals = max(0, min(2, DIGITS - whole_digits))
    return _line(name, f"{value:.{decimals}f}")


def _count(figures: Mapping[str, float | None], key: str, name: str) -> str:
    value = figures.get(key)
    return _line(name, _absent(key, figures) if value is None else f"{value:.0f}")


def _absent(key: str, figures: Mapping[str, float | None]) -> str:
    """Return why a figure has no number.

    Output throughput and means are never cut from a status.
    """
    if key in _OF_OUTPUT and figures.get("output_throughput") is None:
        return NOT_COUNTED
    for latency in LATENCIES:
        if (
            key.endswith(f"_{latency}_ms")
            and figures.get(f"mean_{latency}_ms") is None
        ):
            return NOT_MEASURED
    return NOT_KEPT


def _line(name: str, value: str) -> str:
    return f"{name:<{NAME_WIDTH}} {value}"
