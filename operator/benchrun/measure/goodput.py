"""Requests that kept every latency limit, by the second: throughput that is worth something to a user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.measure.cells import duration_seconds


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Largest latencies of a good request, in milliseconds; infinite where there is no limit."""

    ttft_ms: float = math.inf
    tpot_ms: float = math.inf
    e2el_ms: float = math.inf


def goodput(records: Sequence[StageRecord], limits: RequestLimits, *, since_due: bool = False) -> float | None:
    """Good requests a second; None without a duration. `since_due`: TTFT and E2EL with the wait in the client's queue.

    A failed request is not good. An answer of one token has no time per output token: no limit on it counts against it,
    as in vLLM.
    """
    seconds = math.fsum(duration_seconds(record) for record in records)
    return sum(_good(record, limits, since_due=since_due) for record in records) / seconds if seconds > 0 else None


def _good(record: StageRecord, limits: RequestLimits, *, since_due: bool) -> int:
    columns = record.requests
    ttft_limit, tpot_limit, e2el_limit = 1000 * limits.ttft_ms, 1000 * limits.tpot_ms, 1000 * limits.e2el_ms
    waits = columns.queue_us if since_due else [0] * len(columns.ok)
    rows = zip(columns.ttft_us, columns.e2el_us, columns.output_tokens, waits, columns.ok, strict=True)
    return sum(
        ttft + wait <= ttft_limit
        and e2el + wait <= e2el_limit
        and (tokens <= 1 or e2el - ttft <= tpot_limit * (tokens - 1))
        for ttft, e2el, tokens, wait, ok in rows
        if ok
    )
