"""The latencies of a load point as samples whose certainty is known: `benchrun_client.contract.certainty` has the method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import add, sub

from benchrun_client.contract import GapSample, LatencySample, RequestSample, StageParts, StageRecord, stage_parts

from benchrun.measure.cells import QUEUE_TIME, QUEUED_E2EL, QUEUED_TTFT, failed_requests, request_values

Samples = Mapping[str, LatencySample]
"""By the names of pools. Values are microseconds."""


def latency_samples(
    records: Sequence[StageRecord],
    *,
    users: int | None,
    at_once: bool = False,
    queued: bool = False,
    failed: bool = True,
) -> Samples:
    """Every latency of the stages of a load point.

    `users`: of a closed loop; None: an open loop, a trace, or all `at_once`. `queued`: those with the wait in the client's queue,
    too. `failed`: whether failed requests are infinite values; without, they have none, as in the figures of a row.
    """
    stages = [parts_of(record, users=users, at_once=at_once) for record in records]
    rank = math.inf if failed else None
    names = ("ttft", "tpot", "e2el", *((QUEUE_TIME, QUEUED_TTFT, QUEUED_E2EL) if queued else ()))
    found: dict[str, LatencySample] = {
        name: RequestSample(stages, [request_values(record.requests, name, failed=rank) for record in records])
        for name in names
    }
    shares = [failed_requests(r) / max(1, sum(r.requests.ok)) if failed else 0.0 for r in records]
    return {**found, "itl": GapSample(stages, [(record.gaps, record.gap_slices) for record in records], shares)}


def parts_of(record: StageRecord, *, users: int | None, at_once: bool = False) -> StageParts:
    """A stage cut into parts; requests of an open loop are in the system from when they were due."""
    requests = record.requests
    due, ends = (
        list(map(sub, requests.start_us, requests.queue_us)),
        list(map(add, requests.start_us, requests.e2el_us)),
    )
    return stage_parts(due, ends, users=users, at_once=at_once)
