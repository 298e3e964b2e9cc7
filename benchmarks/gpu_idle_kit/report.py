"""A report on where an arm's time went, stretch by stretch."""

from collections.abc import Iterator, Sequence

from gpu_idle_kit.figures import Seen
from gpu_idle_kit.streams import Exchange

WORTH_TELLING_SECONDS = 0.02


def lines(
    name: str,
    arm: Seen,
    *,
    exchanges: Sequence[Exchange],
    records: Sequence[Exchange],
) -> Iterator[str]:
    """Yield the report on one arm: its stages, its idle stretches and its end.

    An idle stretch names what else was asked of the server meanwhile.
    """
    total = arm.deleted_at - arm.ready_at
    yield (
        f"{name}: {arm.idle_seconds:.3f} s idle of {total:.3f} s, {arm.warmup_seconds:.3f} s "
        "warm-up"
    )
    for number, stage in enumerate(arm.stages):
        began = min(e.began for e in stage)
        ended = max(e.ended for e in stage)
        yield (
            f"  stage {number}: {began - arm.ready_at:8.3f} .. {ended - arm.ready_at:8.3f} s "
            "after the first healthy answer"
        )
    for begin, end in arm.idle_spans():
        if end - begin >= WORTH_TELLING_SECONDS:
            yield (
                f"  idle {end - begin:7.3f} s from {begin - arm.ready_at:8.3f} "
                f"s{_others(exchanges, begin, end)}"
            )
    yield from _end(arm, records)


def _others(exchanges: Sequence[Exchange], begin: float, end: float) -> str:
    meanwhile = [
        e
        for e in exchanges
        if begin <= e.began <= end and e.path != "/health" and not e.is_load
    ]
    told = [
        f"{e.path} +{1000 * (e.began - begin):.0f}..{1000 * (e.ended - begin):.0f} ms"
        for e in meanwhile
    ]
    return (
        f": {', '.join(told[:12])}{', ...' if len(told) > 12 else ''}"
        if told
        else ""
    )


def _end(arm: Seen, records: Sequence[Exchange]) -> Iterator[str]:
    """Yield the time from the last answer to the server's deletion.

    Before it come the exchanges of operator and client meanwhile.
    """
    last = arm.deleted_at - arm.last_to_deleted_seconds
    for told in records:
        if told.ended > last:
            asked = 1000 * (told.began - last)
            answered = 1000 * (told.ended - last)
            yield (
                f"  after the last answer: {told.method} {told.path} "
                f"{asked:+.0f}..{answered:+.0f} ms"
            )
    yield (
        "  after the last answer: the server is deleted "
        f"{1000 * arm.last_to_deleted_seconds:+.0f} ms"
    )
