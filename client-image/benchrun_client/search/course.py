"""The course of a search: from what was measured so far to the load to measure next. Pure.

From the lowest load on it doubles until a load does not meet the objectives, then halves the bracket, in ratios. So a server
never gets more than twice what it has been seen to bear. A load whose outcome is Inconclusive is measured again, up to a bound;
still not known to meet the objectives, it bounds the search from above as a missed one does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from benchrun_client.contract import Search
from benchrun_client.search.certainty import Outcome

FACTOR = 2
"""From one load to the next, until the first that does not meet the objectives."""
SIGNIFICANT_DIGITS = 4
"""Of a rate between two others: finer than the finest tolerance."""
SMALLEST_EXPONENT = -6
"""A rate has six decimals at most."""


@dataclass(frozen=True, slots=True)
class Position:
    """One measurement of a search, and the bracket that it is to narrow."""

    number: int
    """Of the probe: each is another load, counted from 1."""
    repeat: int
    value: Decimal
    met: Decimal | None = None
    """Highest load that met the objectives so far."""
    not_met: Decimal | None = None
    """Lowest one that did not."""


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
    middle = _rounded((met * not_met).sqrt(), whole=search.axis == "concurrency")
    return middle if met < middle < not_met else None


def _rounded(value: Decimal, *, whole: bool) -> Decimal:
    exponent = 0 if whole else max(value.adjusted() - SIGNIFICANT_DIGITS + 1, SMALLEST_EXPONENT)
    return value.quantize(Decimal(1).scaleb(exponent))
