"""Figures of the plateau, under vLLM's names, to stand beside those of the whole stage.

Latencies are those of requests *sent* in the plateau, however late their answer; so the slow ones are not left out.
Throughput is what *happened* in it: answers that were completed, and tokens that came. When single tokens came is not kept:
the first is set at its TTFT, the others evenly from there to the end of the answer. Gaps between tokens (ITL) are kept
for the whole stage only and have no figures here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress

from benchrun_client.contract import GapCounts, RequestColumns, StageRecord

from benchrun.measure.cells import Latency, latencies, level_metrics, rounded
from benchrun.measure.steady import Plateau

LATENCIES: tuple[Latency, ...] = ("ttft", "tpot", "e2el")


def plateau_metrics(
    stages: Sequence[tuple[StageRecord, Plateau]], percentiles: Sequence[str]
) -> dict[str, float | None]:
    """Figures of one stage's plateau, or of several in one pool, as a cell's are pooled."""
    sent = [sent_in_plateau(record, interval) for record, interval in stages]
    metrics: dict[str, float | None] = dict(_totals(stages))
    for latency in LATENCIES:
        metrics |= level_metrics(latencies(sent, latency), latency, percentiles)
    return metrics


def sent_in_plateau(record: StageRecord, interval: Plateau) -> StageRecord:
    """The record as if only the requests sent in its plateau had been; without gaps, which can't be told apart."""
    inside = bytearray(len(record.requests.ok))
    for position in interval.started:
        inside[position] = 1
    columns = {name: tuple(compress(column, inside)) for name, column in record.requests}
    return record.model_copy(update={"requests": record.requests.model_copy(update=columns), "gaps": GapCounts()})


def completed_in(requests: RequestColumns, interval: Plateau) -> int:
    """How many answers were completed after the start of an interval and by its end, whenever they were sent."""
    rows = zip(requests.start_us, requests.e2el_us, requests.ok, strict=True)
    return sum(1 for start, e2el, ok in rows if ok and interval.start_us < start + e2el <= interval.end_us)


def output_tokens_in(requests: RequestColumns, interval: Plateau) -> float:
    """How many tokens came after the start of an interval and by its end, of requests that were answered."""
    columns = (requests.start_us, requests.ttft_us, requests.e2el_us, requests.output_tokens, requests.ok)
    begin, end = interval.start_us, interval.end_us
    whole, parts = 0, []
    for start, ttft, e2el, tokens, ok in zip(*columns, strict=True):
        first, last = start + ttft, start + max(ttft, e2el)
        if not ok or tokens == 0 or last <= begin or first > end:
            continue
        if begin < first and last <= end:
            whole += tokens
        else:
            came_first = 1 if begin < first else 0
            parts.append(came_first + (tokens - 1) * (min(last, end) - max(first, begin)) / (last - first))
    return whole + math.fsum(parts)


def _totals(stages: Sequence[tuple[StageRecord, Plateau]]) -> Mapping[str, float | None]:
    seconds = sum(interval.length_us for _, interval in stages) / 1e6
    completed = sum(completed_in(record.requests, interval) for record, interval in stages)
    tokens = math.fsum(output_tokens_in(record.requests, interval) for record, interval in stages)
    return {
        "completed": completed,
        "duration": rounded(seconds),
        "request_throughput": rounded(completed / seconds) if seconds else None,
        "output_throughput": rounded(tokens / seconds) if seconds else None,
    }
