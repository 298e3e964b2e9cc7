"""What happened to counters between the two edges of a stage: of the servers, and of the proxy.

A counter that fell, or another start time, is another process: the difference means nothing then. It is reported as a
reset and never clamped to 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchrun_client.contract import PROXY_COUNTERS, SERVER_COUNTERS, START_TIME, ServerEdge, StageRecord

from benchrun.measure.cells import duration_seconds
from benchrun.measure.exposition import is_believable
from benchrun.names import ANSWERING_ROLES, PREFILLING_ROLES, ROLE_PROXY

ADMISSION_REJECTIONS = "admission_rejections_total"
EXTERNAL_HITS = "external_prefix_cache_hits_total"
EXTERNAL_QUERIES = "external_prefix_cache_queries_total"
FAILED_TRANSFERS = (
    "nixl_num_failed_transfers_total",
    "nixl_num_failed_notifications_total",
    "nixl_num_kv_expired_reqs_total",
)
GENERATION_TOKENS = "generation_tokens_total"
PREEMPTIONS = "num_preemptions_total"
PREFIX_HITS = "prefix_cache_hits_total"
PREFIX_QUERIES = "prefix_cache_queries_total"
PROMPT_TOKENS = "prompt_tokens_total"
QUEUE_TIME_COUNT = "request_queue_time_seconds_count"
QUEUE_TIME_SUM = "request_queue_time_seconds_sum"
REQUESTS_FINISHED = "request_success_total"
TTFT_COUNT = "time_to_first_token_seconds_count"
TTFT_SUM = "time_to_first_token_seconds_sum"


def of_vllm(edges: Iterable[ServerEdge]) -> tuple[ServerEdge, ...]:
    """All but a proxy's, which has other counters."""
    return tuple(edge for edge in edges if edge.role != ROLE_PROXY)


def answering(edges: Iterable[ServerEdge]) -> tuple[ServerEdge, ...]:
    """Those of servers that write answers: they count each request of the client once."""
    return tuple(edge for edge in edges if edge.role in ANSWERING_ROLES)


def prefilling(edges: Iterable[ServerEdge]) -> tuple[ServerEdge, ...]:
    """Those of servers that compute prompts, each once."""
    return tuple(edge for edge in edges if edge.role in PREFILLING_ROLES)


def by_role(edges: Iterable[ServerEdge]) -> dict[str, tuple[ServerEdge, ...]]:
    """Those of each role, in order of appearance."""
    known = tuple(edges)
    roles = dict.fromkeys(edge.role for edge in known)
    return {role: tuple(edge for edge in known if edge.role == role) for role in roles}


def rise(edges: Iterable[ServerEdge], counter: str) -> float | None:
    """Rise of one counter, summed over all these servers; None: one did not say at both edges, or started anew in between."""
    known = list(edges)
    if any(is_reset(edge) for edge in known):
        return None
    rises = [rise_at(edge, counter) for edge in known]
    if not rises or None in rises:
        return None
    return math.fsum(r for r in rises if r is not None)


def count(snapshot: Mapping[str, float] | None, counter: str) -> float | None:
    """What a snapshot says of a counter; None where there is none, or where no server can have counted so far."""
    told = None if snapshot is None else snapshot.get(counter)
    return told if told is not None and is_believable(told) else None


def rise_at(edge: ServerEdge, counter: str) -> float | None:
    """Rise at one server, negative if it fell; None where either edge lacks the counter."""
    before, after = count(edge.before, counter), count(edge.after, counter)
    return None if before is None or after is None else after - before


def is_restarted(edge: ServerEdge) -> bool:
    """Whether the server's process has another start time after the stage than before."""
    moved = rise_at(edge, START_TIME)
    return moved is not None and moved != 0


def fallen_counters(edge: ServerEdge) -> tuple[str, ...]:
    """Counters that are lower after the stage than before it."""
    rises = ((counter, rise_at(edge, counter)) for counter in (*SERVER_COUNTERS, *PROXY_COUNTERS))
    return tuple(counter for counter, moved in rises if moved is not None and moved < 0)


def is_reset(edge: ServerEdge) -> bool:
    """Whether the server at the end of the stage is not the one of its start."""
    return is_restarted(edge) or bool(fallen_counters(edge))


# ---- proxy ------------------------------------------------------------------------------------------------------------
# What the proxy between prefill and decode did in a stage, by its own counters.

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
