"""What the proxy between prefill and decode did in a stage, by its own counters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchrun_client.contract import ServerEdge, StageRecord

from benchrun.api.names import ROLE_PROXY
from benchrun.measure.cells import duration_seconds
from benchrun.measure.edges import rise

ADDED_SUM = "benchrun_proxy_added_seconds_sum"
ADDED_COUNT = "benchrun_proxy_added_seconds_count"
QUEUE_SUM = "benchrun_proxy_queue_seconds_sum"
LAG_SUM = "benchrun_proxy_loop_lag_seconds_sum"
LAG_COUNT = "benchrun_proxy_loop_lag_seconds_count"
PROXY_TTFT_SUM = "benchrun_proxy_time_to_first_token_seconds_sum"
PROXY_TTFT_COUNT = "benchrun_proxy_time_to_first_token_seconds_count"
CPU = "process_cpu_seconds_total"


@dataclass(frozen=True, slots=True)
class ProxyFigures:
    """Over one or more stages."""

    added_mean_ms: float | None
    """Of the time to first token, what neither role took; None where the proxy does not tell, as one of another make."""
    queued_mean_ms: float | None
    """For a place among the requests under way, at most so many at once."""
    cores: float | None


def proxy_edges(record: StageRecord) -> tuple[ServerEdge, ...]:
    """Those of the proxy; none where requests go straight to a server."""
    return tuple(edge for edge in record.servers if edge.role == ROLE_PROXY)


def proxy_figures(records: Iterable[StageRecord]) -> ProxyFigures | None:
    """Of stages that went through a proxy; None: none did."""
    through = [record for record in records if proxy_edges(record)]
    if not through:
        return None
    added, count, queued, cpu = (
        _sum([rise(proxy_edges(record), counter) for record in through])
        for counter in (ADDED_SUM, ADDED_COUNT, QUEUE_SUM, CPU)
    )
    seconds = math.fsum(duration_seconds(record) for record in through)
    return ProxyFigures(
        added_mean_ms=_ratio(added, count, 1000),
        queued_mean_ms=_ratio(queued, count, 1000),
        cores=_ratio(cpu, seconds, 1),
    )


def proxy_ttft(record: StageRecord) -> tuple[float | None, float | None]:
    """Seconds to the first token behind the proxy, summed over requests, and how many: what their client has no part in.

    A request is not read before the proxy's loop comes to it, so the loop's mean lag is added for each.
    """
    total, count, lag, ticks = (
        rise(proxy_edges(record), counter) for counter in (PROXY_TTFT_SUM, PROXY_TTFT_COUNT, LAG_SUM, LAG_COUNT)
    )
    if total is None or count is None:
        return None, count
    return total + count * (lag / ticks if lag is not None and ticks else 0.0), count


def _sum(values: Sequence[float | None]) -> float | None:
    return None if None in values else math.fsum(v for v in values if v is not None)


def _ratio(part: float | None, whole: float | None, factor: float) -> float | None:
    return None if part is None or not whole else factor * part / whole
