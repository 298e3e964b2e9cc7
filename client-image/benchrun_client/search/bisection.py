"""How a search proceeds: whether a load meets the objectives, and which load to measure next. Pure.

From the lowest load on it doubles until a load does not meet the objectives, then halves the bracket, in ratios. So a server
never gets more than twice the load that it has borne. A load whose outcome is Inconclusive is measured again, up to a bound;
if it is still Inconclusive, it bounds the search from above as a missed one does.

Whether a percentile keeps its limit is decided with 95 % certainty by the operator's test of a load point: its interval for the
percentile lies wholly below (above) the limit if and only if so many (few) values are within the limit that chance alone would
hardly do that were the percentile at the limit (binomial).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, compress
from operator import add
from typing import Literal

from benchrun_client.contract import Limit, Search, binomial
from benchrun_client.stage_record import RawStage

Outcome = Literal["Met", "Missed", "Inconclusive"]
ERROR = 0.025
"""On each side: how often, at most, either outcome is wrong."""
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True)
class Tally:
    """The values of one objective's metric."""

    values: int = 0
    within: int = 0  # How many of them keep the limit.

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.values + other.values, self.within + other.within)


def outcome(tally: Tally, percent: float) -> Outcome:
    """Met or Missed where that is certain."""
    share = percent / 100
    if tally.values == 0:
        return "Inconclusive"
    if _is_rarely_reached(tally.within, tally.values, share):
        return "Met"
    if _is_rarely_reached(tally.values - tally.within, tally.values, 1 - share):
        return "Missed"
    return "Inconclusive"


def _is_rarely_reached(successes: int, trials: int, share: float) -> bool:
    """Whether so many successes, or more, come with a probability of at most `ERROR`."""
    if successes <= trials * share:
        return False
    tail = 0.0
    for count in range(successes, trials + 1):
        term = binomial(trials, share, count)
        tail += term
        # Above the mean each term is smaller than the one before.
        if tail > ERROR or term < NEGLIGIBLE:
            break
    return tail <= ERROR


HALF_A_MICROSECOND = 0.5e-6
"""Records hold whole microseconds: what is rounded down to the limit keeps it."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One stage, or several of the same load together."""

    requests: int
    failed: int
    tallies: tuple[Tally, ...]  # In the order of the search's objectives.

    def __add__(self, other: LoadResult) -> LoadResult:
        both = zip(self.tallies, other.tallies, strict=True)
        return LoadResult(self.requests + other.requests, self.failed + other.failed, tuple(a + b for a, b in both))


def load_result(search: Search, raw: RawStage) -> LoadResult:
    """The result of one stage."""
    return LoadResult(
        requests=len(raw.instants.ok),
        failed=raw.instants.ok.count(False),
        tallies=tuple(_tally(limit, raw) for limit in search.objectives),
    )


def outcome_of(search: Search, result: LoadResult) -> Outcome:
    """Met: every objective for certain. Missed: one of them for certain, or more requests failed than a valid number may have."""
    if 100 * result.failed > float(search.max_failed_percent) * result.requests:
        return "Missed"
    rows = zip(search.objectives, result.tallies, strict=True)
    outcomes = [outcome(tally, float(limit.percentile)) for limit, tally in rows]
    worst: tuple[Outcome, ...] = ("Missed", "Inconclusive")
    return next((each for each in worst if each in outcomes), "Met")


def _tally(limit: Limit, raw: RawStage) -> Tally:
    values = list(_seconds(limit.metric, raw))
    most = limit.max_milliseconds / 1000 + HALF_A_MICROSECOND
    return Tally(values=len(values), within=sum(map(most.__ge__, values)))


def _seconds(metric: str, raw: RawStage) -> Iterable[float]:
    ttfts, gaps = list(compress(raw.ttfts, raw.instants.ok)), list(compress(raw.itls, raw.instants.ok))
    match metric:
        case "TTFT":
            return ttfts
        case "ITL":
            return chain.from_iterable(gaps)
        case "E2EL":
            return map(add, ttfts, map(sum, gaps))
    # TPOT: an answer of one token has none.
    tokens = compress(raw.output_lens, raw.instants.ok)
    return (sum(each) / (count - 1) for each, count in zip(gaps, tokens, strict=True) if count > 1)


FACTOR = 2
"""From one load to the next, until the first that does not meet the objectives."""
SIGNIFICANT_DIGITS = 4
"""Of a rate between two others: finer than the finest tolerance."""
SMALLEST_EXPONENT = -6
"""A rate has six decimals at most."""


@dataclass(frozen=True, slots=True)
class Position:
    """One measurement of a search, and the bracket that it is to narrow."""

    number: int  # Of the probe: each is another load, counted from 1.
    repeat: int
    value: Decimal
    met: Decimal | None = None  # Highest load that met the objectives so far.
    not_met: Decimal | None = None  # Lowest one that did not.


def first(search: Search) -> Position:
    """Where a search begins: at its lowest load."""
    return Position(number=1, repeat=1, value=Decimal(search.lowest))


def after(search: Search, here: Position, outcome: Outcome) -> Position | None:
    """The next measurement; None: the search has ended. `outcome` is that of all repeats at this load together."""
    if outcome == "Inconclusive" and here.repeat < search.max_repeats:
        return replace(here, repeat=here.repeat + 1)
    met = here.value if outcome == "Met" else here.met
    not_met = here.not_met if outcome == "Met" else here.value
    if here.number == search.max_probes:
        return None
    value = _next_value(search, met, not_met)
    return None if value is None else Position(here.number + 1, 1, value, met, not_met)


def may_follow(search: Search, here: Position) -> tuple[Position, ...]:
    """Every measurement that may be the next, each once: what can be prepared before the outcome is known."""
    following = (after(search, here, outcome) for outcome in ("Met", "Missed", "Inconclusive"))
    return tuple(dict.fromkeys(each for each in following if each is not None))


def spelled(value: Decimal) -> str:
    """The one spelling of a load: 4 for 4.0, 100 for 1E+2."""
    return format(value.normalize(), "f")


def _next_value(search: Search, met: Decimal | None, not_met: Decimal | None) -> Decimal | None:
    highest = Decimal(search.highest)
    if met is None:
        return None
    if not_met is None:
        return None if met >= highest else min(met * FACTOR, highest)
    if (not_met - met) * 100 <= met * Decimal(search.tolerance_percent):
        return None
    middle = (met * not_met).sqrt()
    exponent = 0 if search.axis == "concurrency" else max(middle.adjusted() - SIGNIFICANT_DIGITS + 1, SMALLEST_EXPONENT)
    middle = middle.quantize(Decimal(1).scaleb(exponent))
    return middle if met < middle < not_met else None
