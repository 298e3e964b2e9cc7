"""How a load fared against the objectives, by its requests as they were measured. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress

from benchrun_client.contract import Limit, Search
from benchrun_client.records import RawStage
from benchrun_client.search.certainty import Outcome, Tally, outcome

HALF_A_MICROSECOND = 0.5e-6
"""Records hold whole microseconds: what is rounded down to the limit keeps it."""


@dataclass(frozen=True, slots=True)
class Fared:
    """One stage, or several of the same load together."""

    requests: int
    failed: int
    tallies: tuple[Tally, ...]
    """In the order of the search's objectives."""

    def __add__(self, other: Fared) -> Fared:
        both = zip(self.tallies, other.tallies, strict=True)
        return Fared(self.requests + other.requests, self.failed + other.failed, tuple(a + b for a, b in both))


def fared(search: Search, raw: RawStage) -> Fared:
    """Of one stage."""
    return Fared(
        requests=len(raw.ok),
        failed=raw.ok.count(False),
        tallies=tuple(_tally(limit, raw) for limit in search.objectives),
    )


def outcome_of(search: Search, fared: Fared) -> Outcome:
    """Met: every objective for certain. Missed: one of them for certain, or more requests failed than a valid number may have."""
    if 100 * fared.failed > float(search.max_failed_percent) * fared.requests:
        return "Missed"
    outcomes = {
        outcome(tally, float(limit.percentile)) for limit, tally in zip(search.objectives, fared.tallies, strict=True)
    }
    if "Missed" in outcomes:
        return "Missed"
    return "Inconclusive" if "Inconclusive" in outcomes else "Met"


def _tally(limit: Limit, raw: RawStage) -> Tally:
    values = list(_SECONDS[limit.metric](raw))
    most = limit.max_milliseconds / 1000 + HALF_A_MICROSECOND
    return Tally(values=len(values), within=sum(map(most.__ge__, values)))


def _ttft(raw: RawStage) -> Iterable[float]:
    return compress(raw.ttfts, raw.ok)


def _itl(raw: RawStage) -> Iterable[float]:
    return chain.from_iterable(compress(raw.itls, raw.ok))


def _e2el(raw: RawStage) -> Iterable[float]:
    return (ttft + sum(gaps) for ttft, gaps in _answered(raw.ttfts, raw.itls, raw.ok))


def _tpot(raw: RawStage) -> Iterable[float]:
    """A one-token answer has none."""
    rows = zip(raw.itls, raw.output_lens, raw.ok, strict=True)
    return (sum(gaps) / (tokens - 1) for gaps, tokens, ok in rows if ok and tokens > 1)


def _answered(
    ttfts: Sequence[float], itls: Sequence[list[float]], ok: Sequence[bool]
) -> Iterable[tuple[float, list[float]]]:
    return compress(zip(ttfts, itls, strict=True), ok)


_SECONDS: dict[str, Callable[[RawStage], Iterable[float]]] = {"TTFT": _ttft, "TPOT": _tpot, "ITL": _itl, "E2EL": _e2el}
