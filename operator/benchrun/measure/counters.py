"""How counters of servers and of the proxy rose between the beginning and the end of a stage.

An edge (`ServerEdge`) has the counters of one server before and after the stage. A counter that
fell, or another start time, means that another process answered (a reset). The rise is then None,
not 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchrun_client.contract import (
    PROCESS_CPU,
    START_TIME,
    ServerEdge,
    StageRecord,
)

from benchrun.measure.request_figures import (
    duration_seconds,
    is_believable,
    ratio,
    sum_of_all,
    sum_of_known,
)
from benchrun.names import ANSWERING_ROLES, PREFILLING_ROLES, ROLE_PROXY

ADMISSION_REJECTIONS = "admission_rejections_total"
EXTERNAL_HITS = "external_prefix_cache_hits_total"
EXTERNAL_QUERIES = "external_prefix_cache_queries_total"
GENERATION_TOKENS = "generation_tokens_total"
PREEMPTIONS = "num_preemptions_total"
PREFIX_HITS = "prefix_cache_hits_total"
PREFIX_QUERIES = "prefix_cache_queries_total"
PROMPT_TOKENS = "prompt_tokens_total"
SPECULATED = "spec_decode_num_draft_tokens_total"
SPECULATED_ACCEPTED = "spec_decode_num_accepted_tokens_total"
QUEUE_TIME_COUNT = "request_queue_time_seconds_count"
QUEUE_TIME_SUM = "request_queue_time_seconds_sum"
REQUESTS_FINISHED = "request_success_total"
TTFT_COUNT = "time_to_first_token_seconds_count"
TTFT_SUM = "time_to_first_token_seconds_sum"


def of_engine(edges: Iterable[ServerEdge]) -> tuple[ServerEdge, ...]:
    """Return the edges of all servers but the proxy, which has other counters."""
    return tuple(edge for edge in edges if edge.role != ROLE_PROXY)


def answering(edges: Iterable[ServerEdge]) -> tuple[ServerEdge, ...]:
    """Return the edges of servers that write answers: they count each client request once."""
    return tuple(edge for edge in edges if edge.role in ANSWERING_ROLES)


def prefilling(edges: Iterable[ServerEdge]) -> tuple[ServerEdge, ...]:
    """Return the edges of servers that compute prompts: they count each prompt once."""
    return tuple(edge for edge in edges if edge.role in PREFILLING_ROLES)


def by_role(edges: Sequence[ServerEdge]) -> dict[str, tuple[ServerEdge, ...]]:
    """Group edges by role, in order of each role's first edge."""
    return {
        role: tuple(e for e in edges if e.role == role)
        for role in dict.fromkeys(edge.role for edge in edges)
    }


def rise(edges: Sequence[ServerEdge], counter: str) -> float | None:
    """Return the rise of one counter, summed over these servers.

    None if a server lacks the counter before or after the stage, or was restarted in between.
    """
    return (
        None
        if any(map(is_reset, edges))
        else sum_of_all([rise_at(edge, counter) for edge in edges])
    )


def prefix_lookups(
    edges: Sequence[ServerEdge],
) -> tuple[float, float, float] | None:
    """Return how many prompt tokens these servers looked up, and found, in prefix caches.

    The three values are tokens looked up, tokens found in the servers' own caches, and tokens found
    in a cache behind those (host memory, disk, another node; 0 if the server does not report it).
    None if a server's counters were not read before and after the stage.
    """
    hits = rise(edges, PREFIX_HITS)
    queries = rise(edges, PREFIX_QUERIES)
    if hits is None or queries is None:
        return None
    external_hits, external_queries = (
        math.fsum(rise_at(edge, counter) or 0.0 for edge in edges)
        for counter in (EXTERNAL_HITS, EXTERNAL_QUERIES)
    )
    # The second tier is asked for what the first lacks; without a first tier, for everything.
    return max(queries, external_queries), hits, external_hits


def count(snapshot: Mapping[str, float] | None, counter: str) -> float | None:
    """Return the value of a counter; None if it is missing or not believable."""
    value = None if snapshot is None else snapshot.get(counter)
    return value if value is not None and is_believable(value) else None


def finished(edges: Sequence[ServerEdge], *reasons: str) -> float | None:
    """Return how many requests these servers finished for any of the given reasons.

    None if the servers have no counter for any of these reasons.
    """
    return sum_of_known(
        rise(edges, f"finished_{reason}_total") for reason in reasons
    )


def rise_at(edge: ServerEdge, counter: str) -> float | None:
    """Return the rise at one server, negative if it fell.

    None if the counter is missing before or after the stage.
    """
    before = count(edge.before, counter)
    after = count(edge.after, counter)
    return None if before is None or after is None else after - before


def is_restarted(edge: ServerEdge) -> bool:
    """Return whether the server process's start time changed between beginning and end."""
    return bool(rise_at(edge, START_TIME))


def fallen_counters(edge: ServerEdge) -> tuple[str, ...]:
    """Return the names of the counters that are lower after the stage than before it."""
    counted = [name for name in edge.before or () if name != START_TIME]
    return tuple(name for name in counted if (rise_at(edge, name) or 0) < 0)


def is_reset(edge: ServerEdge) -> bool:
    """Return whether the server process at the end of the stage is not the one at its start."""
    return is_restarted(edge) or bool(fallen_counters(edge))


CPU = PROCESS_CPU
_PROXY_SECONDS = "benchrun_proxy_{}_seconds_{}"
"""Name of the sum or count of durations that the proxy measured."""


@dataclass(frozen=True, slots=True)
class ProxyFigures:
    """Figures of the proxy between prefill and decode, over one or more stages.

    A figure is None if the proxy lacks the counters for it.
    """

    # Mean milliseconds of TTFT that neither prefill nor decode took.
    added_mean_ms: float | None
    queued_mean_ms: float | None
    """Mean wait in milliseconds because of the proxy's limit on concurrent requests."""
    cores: float | None


def proxy_edges(record: StageRecord) -> tuple[ServerEdge, ...]:
    """Return the proxy's edges; empty if requests go straight to a server."""
    return tuple(edge for edge in record.servers if edge.role == ROLE_PROXY)


def proxy_figures(records: Iterable[StageRecord]) -> ProxyFigures | None:
    """Return the proxy's figures over the stages that went through it; None if none did."""
    if not (through := [record for record in records if proxy_edges(record)]):
        return None
    times = (
        _PROXY_SECONDS.format(*words)
        for words in (
            ("added", "sum"),
            ("added", "count"),
            ("queue", "sum"),
            ("queue", "count"),
        )
    )
    added, added_count, queued, queued_count, cpu = (
        sum_of_all([rise(proxy_edges(record), counter) for record in through])
        for counter in (*times, CPU)
    )
    seconds = math.fsum(duration_seconds(record) for record in through)
    return ProxyFigures(
        ratio(added, added_count, 1000),
        ratio(queued, queued_count, 1000),
        cores=ratio(cpu, seconds),
    )


def proxy_ttft(record: StageRecord) -> tuple[float | None, float | None]:
    """Return the sum of the times from the proxy to the first token, and the number of requests.

    The times are in seconds. The mean lag of the proxy's event loop is added for each request,
    because the loop reads a request that much later. A value is None if its counters were not read.
    """
    total, count, lag, ticks = (
        rise(proxy_edges(record), _PROXY_SECONDS.format(time, kind))
        for time in ("time_to_first_token", "loop_lag")
        for kind in ("sum", "count")
    )
    if total is None or count is None:
        return None, count
    return total + count * (ratio(lag, ticks) or 0.0), count
