"""The parts of a stage into the record of the stage. Pure, and exact: requests are put side by side, gaps are counted together,
and every figure is worked out anew from those. Nothing is averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchrun_client.contract import ClientFigures, GapCounts, RequestColumns, Shards, StageRecord
from benchrun_client.records import MAX_ERRORS, gap_counts_of
from benchrun_client.shards.figures import figures_of

SAME = ("run_uid", "plan_digest", "sequence", "stage_id", "prompts_digest", "engine")
"""What all parts must say alike. The digest is that of the prompts of the whole stage: they have divided the same traffic."""


@dataclass(frozen=True, slots=True)
class Together:
    """How the shards went about a stage."""

    shards: int
    began_unix_us: int
    """The agreed instant."""
    start_skew_us: int
    clock_error_us: int
    max_concurrency: int | None
    """The cap of the whole stage."""


def merged(parts: Sequence[StageRecord], together: Together) -> StageRecord:
    """One record. The first part is shard 0's, which alone saw the servers.

    Raises:
        ValueError: the parts are not of one stage.
    """
    first = parts[0]
    for name in SAME:
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            raise ValueError(f"shards do not agree on {name}: {sorted({str(getattr(part, name)) for part in parts})}")
    began = min(part.first_send_unix_us for part in parts)
    ended = max(part.last_receive_unix_us for part in parts)
    columns = _columns(parts, began)
    gaps = _gaps(parts)
    return first.model_copy(
        update={
            "first_send_unix_us": began,
            "last_receive_unix_us": ended,
            "idle_before_us": max(first.idle_before_us - (first.first_send_unix_us - began), 0),
            "requests": columns,
            "gaps": gaps,
            "scalars": figures_of(
                columns,
                gaps,
                duration_seconds=max(ended - together.began_unix_us, 1) / 1e6,
                max_concurrency=together.max_concurrency,
                asked=first.scalars,
            ),
            "repeated_tokens": sum(part.repeated_tokens for part in parts),
            "errors": _errors(parts),
            "client": _client([part.client for part in parts]),
            "shards": Shards(
                count=together.shards,
                start_skew_us=together.start_skew_us,
                clock_error_us=together.clock_error_us,
            ),
        }
    )


def _columns(parts: Iterable[StageRecord], began: int) -> RequestColumns:
    """All requests in order of sending, by one clock."""
    rows = sorted(
        (
            (part.first_send_unix_us - began + row[0], *row[1:])
            for part in parts
            for row in zip(*(getattr(part.requests, name) for name in RequestColumns.model_fields), strict=True)
        ),
        key=lambda row: row[0],
    )
    return RequestColumns(**dict(zip(RequestColumns.model_fields, zip(*rows, strict=True), strict=True)))


def _gaps(parts: Iterable[StageRecord]) -> GapCounts:
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(dict(zip(part.gaps.us, part.gaps.count, strict=True)))
    return gap_counts_of(counts)


def _errors(parts: Iterable[StageRecord]) -> dict[str, int]:
    texts: Counter[str] = Counter()
    for part in parts:
        texts.update(part.errors)
    return dict(texts.most_common(MAX_ERRORS))


def _client(each: Sequence[ClientFigures]) -> ClientFigures:
    """CPU of all processes; of what holds a client back, the worst of any."""
    return ClientFigures(
        cpu_seconds=sum(figures.cpu_seconds for figures in each),
        wall_seconds=max(figures.wall_seconds for figures in each),
        processes=sum(figures.processes for figures in each),
        # Processes of one pod read the same counter.
        throttled_periods=_worst(figures.throttled_periods for figures in each),
        lag_p99_us=_worst(figures.lag_p99_us for figures in each),
        lag_max_us=_worst(figures.lag_max_us for figures in each),
    )


def _worst(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
