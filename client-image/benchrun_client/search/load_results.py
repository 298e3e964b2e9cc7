"""The values of measured stages that decide what is measured next. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, sub

from benchrun_client import contract
from benchrun_client.stage_record import (
    RawStage,
    gap_counts,
    gap_slices,
    request_columns,
    sliced_gaps,
    summed,
)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The values of a stage that decide whether its load meets the objectives."""

    requests: int
    failed: int  # Number of failed requests among `requests`.
    shape: contract.StageShape
    values: Mapping[str, Sequence[float | None]]
    """Metric -> value of every request in microseconds; infinite for a failed request, None for a
    request that has no value."""
    gaps: tuple[contract.GapCounts, contract.GapSlices | None] = (
        contract.GapCounts(),
        None,
    )
    """Gaps between tokens of the steady part; only filled in if an objective is on ITL."""
    failed_ratio: float = 0.0
    """Ratio of failed to answered requests in the steady part."""


def load_result(
    load: contract.LoadKind, metrics: Collection[str], raw: RawStage
) -> LoadResult:
    """Return the values of a measured stage, of these metrics."""
    slices = sliced_gaps(raw) if "ITL" in metrics else []
    return result_of(load, metrics, request_columns(raw), slices)


def result_of(
    load: contract.LoadKind,
    metrics: Collection[str],
    columns: contract.RequestColumns,
    slices: Sequence[Counter[int]] = (),
) -> LoadResult:
    """Build the load result from a stage's requests and its token gaps by slices of time."""
    begins = (
        list(map(sub, columns.start_us, columns.queue_us))
        if load.users is None
        else columns.start_us
    )
    ends = list(map(add, columns.start_us, columns.e2el_us))
    part = contract.find_plateau(columns, contract.in_flight(columns), load)
    steady = part if isinstance(part, contract.Plateau) and part.is_steady else None
    return LoadResult(
        requests=len(columns.ok),
        failed=columns.ok.count(0),
        shape=contract.stage_shape(
            begins,
            ends,
            users=load.users,
            at_once=load.all_at_once,
            counted=None if steady is None else steady.started,
            is_steady=steady is not None or load.never_steady,
        ),
        values={
            metric: _values(
                metric, contract.sent_when_due(columns, load), since_due=load.capped
            )
            for metric in metrics
            if metric != "ITL"
        },
        gaps=contract.counted_gaps(
            columns,
            gap_counts(summed(slices)),
            gap_slices(slices),
            steady,
        ),
        failed_ratio=contract.failed_ratio(columns.ok, steady),
    )


def _values(
    metric: str, columns: contract.RequestColumns, *, since_due: bool
) -> list[float | None]:
    """Return a latency of every request; `since_due` includes the wait in the client's queue."""
    values: Iterable[float | None] = (
        columns.ttft_us if metric == "TTFT" else columns.e2el_us
    )
    if metric == "TTFRT":
        begun = columns.reasoning_us or [0] * len(columns.ok)
        values = (us or None for us in begun)
    if metric == "TTFAT":
        # An answer that ended within its reasoning never began.
        values = (us or math.inf for us in columns.answer_us or columns.ttft_us)
    if metric == "TPOT":
        rows = zip(
            columns.e2el_us, columns.ttft_us, columns.output_tokens, strict=True
        )
        values = (
            (e2el - ttft) / (tokens - 1) if tokens > 1 else None
            for e2el, ttft, tokens in rows
        )
    waits = (
        columns.queue_us
        if since_due and metric != "TPOT"
        else [0] * len(columns.ok)
    )
    return [
        (value and value + wait) if ok else math.inf
        for value, wait, ok in zip(values, waits, columns.ok, strict=True)
    ]


def sample_of(metric: str, results: Sequence[LoadResult]) -> contract.LatencySample:
    """Return the values of one latency in all stages of a load."""
    shapes = [each.shape for each in results]
    if metric != "ITL":
        return contract.RequestSample(
            shapes, [each.values[metric] for each in results]
        )
    ratios = [each.failed_ratio for each in results]
    return contract.GapSample(shapes, [each.gaps for each in results], ratios)
