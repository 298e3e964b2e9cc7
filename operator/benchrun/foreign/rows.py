"""Put the requests of files that have one object a request into columns, in order of sending."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus

from benchrun_client.contract import RateLoad, spelled

from benchrun.foreign.model import ForeignRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request, with times in seconds; None where the file has no such value."""

    start: float  # By any clock that all requests share.
    ok: bool
    ttft: float
    e2el: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    asked_tokens: int | None = None
    gaps: Sequence[float] | None = None
    client_input_tokens: int | None = None


def requests_of(rows: Sequence[Row]) -> ForeignRequests | None:
    """Return the columns of the requests; a column is None if an answer has no value in it.

    Return None if there are no requests.
    """
    if not rows:
        return None
    ordered = sorted(rows, key=lambda row: row.start)
    first = ordered[0].start
    answered = [row for row in ordered if row.ok]
    counted = _column(ordered, lambda row: row.client_input_tokens)
    has_gaps = all(row.gaps is not None for row in answered)
    return ForeignRequests(
        ok=[row.ok for row in ordered],
        start_us=[_us(row.start - first) for row in ordered],
        ttft_us=[_us(row.ttft) for row in ordered],
        e2el_us=[_us(row.e2el) for row in ordered],
        input_tokens=_column(ordered, lambda row: row.input_tokens),
        output_tokens=_column(ordered, lambda row: row.output_tokens),
        asked_tokens=_column(ordered, lambda row: row.asked_tokens),
        gaps_us=[_us(gap) for row in answered for gap in row.gaps or ()]
        if has_gaps
        else None,
        client_input_tokens=None if counted is None else sum(counted),
    )


def _column(
    rows: Sequence[Row], value: Callable[[Row], int | None]
) -> list[int] | None:
    """Return a value of every request, 0 for failed ones; None if an answer lacks it."""
    if any(value(row) is None for row in rows if row.ok):
        return None
    return [(value(row) or 0) if row.ok else 0 for row in rows]


def _us(seconds: float) -> int:
    return round(1e6 * seconds)


def rate_load(
    a_second: float, *, burstiness: str = "1", cap: int | None = None
) -> RateLoad:
    """Return the load of a rate, with six significant digits."""
    return RateLoad(
        requests_per_second=decimal(a_second),
        burstiness=burstiness,
        max_concurrency=cap,
    )


def decimal(value: float) -> str:
    """Return a number as loads spell it, with six significant digits."""
    return spelled(Decimal(f"{value:.6g}"))


EVEN = "1000"
"""Burstiness of arrivals that are evenly spaced: the gaps of a Gamma distribution then scatter by
3 %."""


def phrase(code: int, otherwise: str) -> str:
    """Return the words of an HTTP status, by which rules know that a request was rejected."""
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return otherwise
