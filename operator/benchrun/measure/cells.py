"""Figures of a cell: the requests of all its stages in one pool, under vLLM's own key names.

For a single stage they are vLLM's own figures. For several they are what one long stage would have had: latencies over
all requests, throughput as totals over summed durations. Failed requests count in `failed` and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import mul
from typing import Literal

from benchrun_client.contract import StageRecord

from benchrun.measure.believable import is_believable
from benchrun.measure.percentiles import Distribution

Latency = Literal["ttft", "tpot", "itl", "e2el"]
LATENCIES: tuple[Latency, ...] = ("ttft", "tpot", "itl", "e2el")
SIGNIFICANT_DIGITS = 5
Pools = Mapping[str, Distribution]
"""Latencies of many requests by their name, in microseconds."""


def latencies(records: Sequence[StageRecord], latency: Latency) -> Distribution:
    """All successful requests of these records; microseconds."""
    if latency == "itl":
        return Distribution.of_counts(chain.from_iterable(zip(r.gaps.us, r.gaps.count, strict=True) for r in records))
    return Distribution.of(chain.from_iterable(_OF_REQUESTS[latency](record) for record in records))


def pools_of(records: Sequence[StageRecord]) -> Pools:
    """Every latency of these records."""
    return {latency: latencies(records, latency) for latency in LATENCIES}


def mean_ms(record: StageRecord, latency: Latency) -> float | None:
    """The mean of one stage, in milliseconds; without ordering its values first."""
    if latency == "itl":
        total, count = sum(map(mul, record.gaps.us, record.gaps.count)), sum(record.gaps.count)
        return milliseconds(total / count) if count else None
    values = list(_OF_REQUESTS[latency](record))
    return milliseconds(math.fsum(values) / len(values)) if values else None


def pooled_metrics(records: Sequence[StageRecord], pools: Pools, percentiles: Sequence[str]) -> dict[str, float | None]:
    """Every figure of a cell. Latencies are milliseconds with five significant digits; counts are exact."""
    metrics: dict[str, float | None] = dict(totals(records))
    for latency, pool in pools.items():
        metrics |= latency_metrics(pool, latency, percentiles)
    return metrics


def totals(records: Sequence[StageRecord]) -> Mapping[str, float | None]:
    """Counts, tokens, and both by the second."""
    duration = math.fsum(duration_seconds(record) for record in records)
    completed = sum(sum(record.requests.ok) for record in records)
    sent_tokens = sum(sum(compress(r.requests.input_tokens, r.requests.ok)) for r in records)
    answered_tokens = sum(sum(compress(r.requests.output_tokens, r.requests.ok)) for r in records)

    def a_second(total: int) -> float | None:
        return rounded(total / duration) if duration > 0 else None

    return {
        "completed": completed,
        "failed": sum(failed_requests(record) for record in records),
        "duration": rounded(duration),
        "total_input_tokens": sent_tokens,
        "total_output_tokens": answered_tokens,
        "request_throughput": a_second(completed),
        "output_throughput": a_second(answered_tokens),
        "total_token_throughput": a_second(sent_tokens + answered_tokens),
    }


def latency_metrics(pool: Distribution, latency: str, percentiles: Sequence[str]) -> dict[str, float | None]:
    """`mean_ttft_ms`, `median_ttft_ms`, `std_ttft_ms`, `p99_ttft_ms` ...; None where nothing was measured."""
    mean, median, *of_percentiles = level_metrics(pool, latency, percentiles).items()
    deviation = (f"std_{latency}_ms", rounded(milliseconds(pool.deviation())))
    return dict((mean, median, deviation, *of_percentiles))


def level_metrics(pool: Distribution, latency: str, percentiles: Sequence[str]) -> dict[str, float | None]:
    """The same without the deviation, which is dear and little read."""
    figures = {"mean": pool.mean(), "median": pool.percentile(50)}
    figures |= {f"p{percentile_word(p)}": pool.percentile(float(p)) for p in percentiles}
    return {f"{name}_{latency}_ms": rounded(milliseconds(value)) for name, value in figures.items()}


def percentile_word(percentile: str) -> str:
    """A percentile as vLLM writes it in its keys: 99 for "99.0", 99.9 for "99.90"."""
    value = float(percentile)
    return str(int(value)) if value == int(value) else str(value)


def duration_seconds(record: StageRecord) -> float:
    """First send to last answer: the load engine's own figure where there is one, by its monotonic clock."""
    said = record.scalars.get("duration")
    if said is not None and is_believable(said) and said > 0:
        return float(said)
    return max(0, record.last_receive_unix_us - record.first_send_unix_us) / 1e6


def failed_requests(record: StageRecord) -> int:
    """How many requests of a stage failed."""
    return len(record.requests.ok) - sum(record.requests.ok)


def milliseconds(microseconds: float | None) -> float | None:
    """Microseconds as milliseconds."""
    return None if microseconds is None else microseconds / 1000


def rounded(value: float | None) -> float | None:
    """Five significant digits."""
    return None if value is None else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def _ttft(record: StageRecord) -> Iterable[float]:
    return compress(record.requests.ttft_us, record.requests.ok)


def _e2el(record: StageRecord) -> Iterable[float]:
    return compress(record.requests.e2el_us, record.requests.ok)


def _tpot(record: StageRecord) -> Iterable[float]:
    """Time per output token after the first; a one-token answer has none."""
    columns = record.requests
    rows = zip(columns.e2el_us, columns.ttft_us, columns.output_tokens, columns.ok, strict=True)
    return ((e2el - ttft) / (tokens - 1) for e2el, ttft, tokens, ok in rows if ok and tokens > 1)


_OF_REQUESTS: Mapping[str, Callable[[StageRecord], Iterable[float]]] = {"ttft": _ttft, "tpot": _tpot, "e2el": _e2el}
