"""What each server did in a stage: by its own counters at both edges, and by the readings of its pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun_client.contract import ServerEdge, StageRecord

from benchrun.measure.edges import (
    GENERATION_TOKENS,
    PROMPT_TOKENS,
    QUEUE_TIME_COUNT,
    QUEUE_TIME_SUM,
    REQUESTS_FINISHED,
    TTFT_COUNT,
    TTFT_SUM,
    of_vllm,
    rise,
)
from benchrun.measure.pod_windows import PodWindow, pod_windows
from benchrun.measure.samples import Sample
from benchrun.measure.windows import Figures, Window, figures


@dataclass(frozen=True, slots=True)
class Replica:
    """One server within one stage. A count is None where the server did not say at both edges, or started anew between."""

    address: str
    pod: str | None
    """Where its readings come from; None where no pod's readings are known to be its own."""
    requests_finished: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    mean_ttft_ms: float | None
    """From the request's arrival at the server."""
    mean_queue_ms: float | None
    figures: Figures
    """Of this server alone: those of readings are None without its pod."""


def replicas(record: StageRecord, samples: Sequence[Sample]) -> tuple[Replica, ...]:
    """Every vLLM server whose pages the client was to read, as the record has them."""
    pods = pod_windows(record, samples)
    return tuple(_replica(edge, _pod_of(edge, pods)) for edge in of_vllm(record.servers))


def _pod_of(edge: ServerEdge, pods: Sequence[PodWindow]) -> PodWindow | None:
    """Two pods that began in the same millisecond can't be told apart: none of them is it."""
    same = [pod for pod in pods if pod.edge is edge]
    return same[0] if len(same) == 1 else None


def _replica(edge: ServerEdge, pod: PodWindow | None) -> Replica:
    read = pod.samples if pod is not None else ()
    return Replica(
        address=edge.address,
        pod=pod.pod if pod is not None else None,
        requests_finished=rise([edge], REQUESTS_FINISHED),
        prompt_tokens=rise([edge], PROMPT_TOKENS),
        generation_tokens=rise([edge], GENERATION_TOKENS),
        mean_ttft_ms=_mean_ms(edge, TTFT_SUM, TTFT_COUNT),
        mean_queue_ms=_mean_ms(edge, QUEUE_TIME_SUM, QUEUE_TIME_COUNT),
        figures=figures([Window(edge.role, read, (edge,), expected=0.0)]),
    )


def _mean_ms(edge: ServerEdge, total: str, count: str) -> float | None:
    seconds, requests = rise([edge], total), rise([edge], count)
    return 1000 * seconds / requests if seconds is not None and requests else None
