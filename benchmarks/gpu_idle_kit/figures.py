"""From exchanges to seconds: when the server had a request, and when it held a GPU idle."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpu_idle_kit.streams import Exchange

Span = tuple[float, float]


class NotAsExpected(Exception):
    """What was seen is not the intended measurement; the text says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One arm, from the server's first healthy answer to the request that deletes it."""

    ready_at: float
    deleted_at: float
    warmups: tuple[Exchange, ...]
    """Canary and warm-up requests: they were asked for, but no figure comes from them."""
    stages: tuple[tuple[Exchange, ...], ...]

    @property
    def warmup_seconds(self) -> float:
        """Return the seconds with a canary or warm-up request in flight."""
        return _length(_merged(_spans(self.warmups)))

    @property
    def idle_seconds(self) -> float:
        """Return the seconds without any request in flight."""
        return _length(self.idle_spans())

    def idle_spans(self) -> list[Span]:
        """Return the stretches without a request as (begin, end) in Unix seconds, in order."""
        busy = _merged(
            _spans([*self.warmups, *(e for stage in self.stages for e in stage)])
        )
        edges = [
            self.ready_at,
            *(instant for span in busy for instant in span),
            self.deleted_at,
        ]
        return [
            (begin, end)
            for begin, end in zip(edges[::2], edges[1::2], strict=True)
            if end > begin
        ]

    @property
    def ready_to_first_seconds(self) -> float:
        """Return the seconds from the first healthy answer to the first request of any kind."""
        return (
            min(e.began for e in (*self.warmups, *self.stages[0])) - self.ready_at
        )

    @property
    def between_stages_seconds(self) -> float:
        """Return the longest time from a stage's last answer to the next stage's first request."""
        return max(
            _first(after) - _last(before) for before, after in pairwise(self.stages)
        )

    @property
    def last_to_deleted_seconds(self) -> float:
        """Return the seconds from the last answer to the request that deletes the server."""
        return self.deleted_at - _last(self.stages[-1])


def seen(
    found: Sequence[Exchange], *, deleted_at: float, stages: int, requests: int
) -> Seen:
    """Sort an arm's exchanges into warm-up and stages.

    Raises NotAsExpected unless they are `stages` times `requests`, one stage after the other.
    """
    ready = min(
        (e.ended for e in found if e.path == "/health" and e.status == 200),
        default=None,
    )
    if ready is None:
        raise NotAsExpected("the server never was healthy")
    load = sorted((e for e in found if e.is_load), key=lambda e: e.began)
    if failed := [e for e in load if e.status != 200]:
        raise NotAsExpected(
            f"{len(failed)} of {len(load)} requests failed, the first with {failed[0].status}"
        )
    if len(load) < stages * requests:
        raise NotAsExpected(
            f"{len(load)} requests, fewer than {stages} stages of {requests}"
        )
    measured = load[len(load) - stages * requests :]
    split = tuple(
        tuple(measured[n : n + requests]) for n in range(0, len(measured), requests)
    )
    if any(_first(after) < _last(before) for before, after in pairwise(split)):
        raise NotAsExpected(
            "stages overlap: the requests are not as many a stage as was asked for"
        )
    return Seen(
        ready,
        deleted_at,
        warmups=tuple(load[: len(load) - len(measured)]),
        stages=split,
    )


def _first(stage: Iterable[Exchange]) -> float:
    return min(e.began for e in stage)


def _last(stage: Iterable[Exchange]) -> float:
    return max(e.ended for e in stage)


def _spans(of: Iterable[Exchange]) -> list[Span]:
    return [(e.began, e.ended) for e in of]


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)
