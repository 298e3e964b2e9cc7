"""The figures of the proxy's benchmark, and its limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from _outcome import beyond

from proxy_kit.load import OUTPUT_TOKENS, Times

MAX_ADDED_MS = 2.0
"""Largest addition to a time to first token, at 50 requests a second."""
_PREFIX = "benchrun_proxy_"


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed."""

    requests_per_second: float
    requests: int
    added_mean_ms: float
    """Mean time that the proxy adds, by its own metric."""
    added_p99_below_ms: float
    """Bound of the bucket that contains the p99. It has no limit, because the machine may be busy
    elsewhere for a moment."""
    ttft_through_ms: float
    """Median TTFT that a client of the proxy sees."""
    ttft_past_ms: float
    """Median TTFT of a client that asks both servers itself."""
    ttft_difference_ms: float
    loop_lag_p99_below_ms: float
    cpu_share: float
    """CPU use of the proxy as a share of one core."""
    cpu_us_per_token: float
    """CPU time of the proxy divided by the number of tokens that went through."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        return beyond(
            self,
            below={
                "added_mean_ms": MAX_ADDED_MS,
                "ttft_difference_ms": MAX_ADDED_MS,
            },
        )


def figures(
    times: Times,
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    seconds: float,
) -> Figures:
    """Compute the figures from the client's times and the proxy's metrics before and after.

    `seconds` is how long requests were sent.
    """
    risen = {name: after[name] - before[name] for name in after}
    requests = int(risen[f'{_PREFIX}requests_total{{outcome="ok"}}'])
    through, past = (
        1000 * median(column) for column in (times.through, times.past)
    )
    cpu_seconds = risen["process_cpu_seconds_total"]
    return Figures(
        requests_per_second=round(len(times.through) / seconds, 1),
        requests=requests,
        added_mean_ms=round(
            1000 * risen[f"{_PREFIX}added_seconds_sum"] / requests, 3
        ),
        added_p99_below_ms=1000 * _p99_bound(risen, "added_seconds"),
        ttft_through_ms=round(through, 3),
        ttft_past_ms=round(past, 3),
        ttft_difference_ms=round(through - past, 3),
        loop_lag_p99_below_ms=1000 * _p99_bound(risen, "loop_lag_seconds"),
        cpu_share=round(cpu_seconds / seconds, 3),
        cpu_us_per_token=round(1e6 * cpu_seconds / (requests * OUTPUT_TOKENS), 1),
    )


def read_page(page: str) -> dict[str, float]:
    """Parse the series of a metrics page: name with labels -> value."""
    pairs = (
        line.rsplit(" ", 1)
        for line in page.splitlines()
        if not line.startswith("#")
    )
    return {name: float(value) for name, value in pairs}


def _p99_bound(risen: Mapping[str, float], name: str) -> float:
    opening = f'{_PREFIX}{name}_bucket{{le="'
    buckets = {
        key.removeprefix(opening)[:-2]: count
        for key, count in risen.items()
        if key.startswith(opening)
    }
    return next(
        float(bound)
        for bound, count in buckets.items()
        if count >= 0.99 * buckets["+Inf"]
    )
