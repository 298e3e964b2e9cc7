"""The three sentences that a report begins with.

They say what was asked, what is certain, and what is not, with what it would take to decide it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchrun_client.contract import KINDS

from benchrun import api
from benchrun.api.sweep import THROUGHPUT, BenchmarkSweepStatus
from benchrun.report.comparison_rows import GATES
from benchrun.report.tables import objective_text

MAX_NAMED = 4  # Most load points, or objectives, that a sentence names.
_DECIDED: frozenset[api.Gate] = frozenset(
    {"NotRegressed", "Regressed", "NotRegressedHere", "RegressedHere"}
)
_UNITS = {kind.axis: kind.unit_in_words for kind in reversed(KINDS)}
"""Unit of the values of an axis; of two kinds with one axis that of the first."""
_CERTAIN = ("Better", "Worse", "Equivalent")
_OPEN = ("NoDetectableDifference", "Unknown")
_FOUND = ("Bracketed", "AtUpperBound", "ProbeLimit")


class Opening(NamedTuple):
    """What was asked, what is certain of it, and what is not."""

    asked: str
    certain: str
    not_certain: str

    @property
    def sentences(self) -> tuple[str, str, str]:
        """Return the three sentences."""
        return (
            f"Asked: {self.asked}.",
            f"Certain: {self.certain}.",
            f"Not certain: {self.not_certain}.",
        )


def of_run(status: api.BenchmarkRunStatus) -> Opening | None:
    """Return the opening of a run's report; None if nothing was measured."""
    if not status.results:
        return None
    certain = [
        *_objectives(status, ("Met", "Missed")),
        *_widths(status, reached=True),
        *_searches(status, found=True),
        *_percentiles(status),
        *_changes(_all_changes(status), _CERTAIN),
        *_gate(status, decided=True),
    ]
    open_ones = [
        *_objectives(status, ("Inconclusive",)),
        *_widths(status, reached=False),
        *_searches(status, found=False),
        *_uncertain(status),
        *_open_changes(_all_changes(status)),
        *_gate(status, decided=False),
    ]
    return Opening(
        "; ".join(_asked(status)),
        "; ".join(certain) or "nothing",
        "; ".join(open_ones) or "nothing that was asked",
    )


def of_sweep(status: BenchmarkSweepStatus) -> Opening | None:
    """Return the opening of a sweep's report; None if nothing was measured."""
    if not status.results:
        return None
    points = list(dict.fromkeys(row.load_point for row in status.results))
    names = [variant.name for variant in status.variants]
    limits = [b.objective for b in status.best if b.objective != THROUGHPUT]
    asked = [
        f"{_named(names, most=MAX_NAMED)} at {_named(points, most=MAX_NAMED)}",
        *([_named(dict.fromkeys(limits), most=MAX_NAMED)] if limits else []),
        *([f"compared with {status.baseline}"] if status.baseline else []),
    ]
    changes = [
        (f"{row.variant} at {row.load_point}", change)
        for row in status.results
        for change in row.changes
    ]
    best = [
        f"{each.objective}: {_best(each.variant, each.load_point, each.tied_with)}"
        for each in status.best
        if each.variant is not None
    ]
    undecided = [each.undecided_text for each in status.best]
    missing = [v.name for v in status.variants if v.reason is not None]
    open_ones = [
        *(text for text in undecided if text is not None),
        *_open_changes(changes),
        *([f"{_named(missing, most=MAX_NAMED)}, not measured"] if missing else []),
    ]
    certain = [*best, *_changes(changes, _CERTAIN)]
    return Opening(
        "; ".join(asked),
        "; ".join(certain) or "nothing",
        "; ".join(open_ones) or "nothing that was asked",
    )


def _best(
    variant: str | None, load_point: str | None, tied_with: Sequence[str]
) -> str:
    """Return which variant is best; one that others tie with is only among the best."""
    if not tied_with:
        return f"{variant} at {load_point} is best"
    return f"{variant} at {load_point} is among the best, with {_named(tied_with, most=MAX_NAMED)}"


def _asked(status: api.BenchmarkRunStatus) -> Iterable[str]:
    searched = {search.workload: search for search in status.searches}
    rows: dict[str, list[api.Result]] = defaultdict(list)
    for row in status.results:
        rows[row.workload].append(row)
    for workload, of in rows.items():
        unit = _UNITS[of[0].axis]
        repeats = max(row.repeats_planned for row in of)
        often = f", {repeats} times each" if repeats > 1 else ""
        if status.until_decided is not None:
            often = ", until all is decided"
        if workload in searched:
            yield f"the most {unit} of {workload} that meet the objectives"
        else:
            values = _named([row.value for row in of], most=2 * MAX_NAMED)
            yield f"{workload} at {values} {unit}{often}"
    limits = dict.fromkeys(
        objective_text(each) for row in status.results for each in row.objectives
    )
    if limits:
        yield _named(limits, most=MAX_NAMED)
    widths = dict.fromkeys(
        _width_text(each) for row in status.results for each in row.widths
    )
    if widths:
        yield _named(widths, most=MAX_NAMED)
    if status.comparison is not None:
        yield f"compared with {status.comparison.baseline.name}"


def _objectives(
    status: api.BenchmarkRunStatus, outcomes: Sequence[str]
) -> Iterable[str]:
    """Yield each objective with its outcome and where it has it, and what would decide it.

    Loads of a search are left out, because its own sentence tells of them.
    """
    searched = {search.workload for search in status.searches}
    found: dict[tuple[str, str], list[tuple[str, api.Price | None]]] = defaultdict(
        list
    )
    for row in status.results:
        for each in row.objectives if row.workload not in searched else ():
            key = (each.outcome, objective_text(each))
            found[key].append((row.load_point, each.price))
    for outcome in outcomes:
        for (word, text), places in found.items():
            if word == outcome:
                points = _named((place for place, _ in places), most=MAX_NAMED)
                verb = "" if word == "Inconclusive" else f"{word} "
                yield f"{text} {verb}at {points}{_dearest(places)}"


def _widths(status: api.BenchmarkRunStatus, *, reached: bool) -> Iterable[str]:
    """Yield each interval whose width was asked for, and where it is as narrow, or is not."""
    places: dict[str, list[str]] = defaultdict(list)
    for row in status.results:
        for each in row.widths:
            if each.reached == reached:
                places[_width_text(each)].append(row.load_point)
    for text, points in places.items():
        yield f"{text} at {_named(points, most=MAX_NAMED)}"


def _width_text(width: api.WidthResult) -> str:
    return f"{width.metric} p{width.percentile} to within {width.percent} %"


def _searches(status: api.BenchmarkRunStatus, *, found: bool) -> Iterable[str]:
    for search in status.searches:
        if _is_found(search) == found:
            yield f"{search.workload}: {search.sentence}"


def _is_found(search: api.SearchResult) -> bool:
    """Return whether a search has its answer: a confirmed load, or that the lowest load missed.

    An Inconclusive or Incomplete one may have a load that only looked as if it met.
    """
    none_met = search.outcome == "NoneMet" and search.upper_outcome == "Missed"
    return none_met or search.outcome in _FOUND


def _percentiles(status: api.BenchmarkRunStatus) -> Iterable[str]:
    held, uncertain = _counted(status)
    if held:
        yield f"{held} of {held + uncertain} percentiles, within their 95 % intervals"


def _counted(status: api.BenchmarkRunStatus) -> tuple[int, int]:
    """Return how many percentiles can be relied on, and how many can't."""
    trusted = [row for row in status.results if row.verdict in api.TRUSTED]
    held = sum(len(row.intervals.keys() - set(row.uncertain)) for row in trusted)
    return held, sum(len(row.uncertain) for row in trusted)


def _uncertain(status: api.BenchmarkRunStatus) -> Iterable[str]:
    held, uncertain = _counted(status)
    prices = [
        (row.load_point, price)
        for row in status.results
        if row.verdict in api.TRUSTED
        for price in row.prices.values()
    ]
    if uncertain:
        yield f"{uncertain} of {held + uncertain} percentiles{_dearest(prices)}"
    if untrusted := [
        row.load_point for row in status.results if row.verdict not in api.TRUSTED
    ]:
        yield f"any figure at {_named(untrusted, most=MAX_NAMED)}, which is not valid"


_Places = Sequence[tuple[str, api.Change]]


def _all_changes(status: api.BenchmarkRunStatus) -> _Places:
    compared = status.comparison
    return [
        (load_point.load_point, change)
        for load_point in (compared.load_points if compared is not None else ())
        for change in load_point.changes
    ]


def _changes(changes: _Places, words: Sequence[str]) -> Iterable[str]:
    counts: Counter[str] = Counter(change.word for _, change in changes)
    told = [f"{counts[word]} {word.lower()}" for word in words if counts[word]]
    if told:
        yield f"of {len(changes)} changes {', '.join(told)}"


def _open_changes(changes: _Places) -> Iterable[str]:
    open_ones = [
        (place, change.price) for place, change in changes if change.word in _OPEN
    ]
    if open_ones:
        yield f"{len(open_ones)} of {len(changes)} changes{_dearest(open_ones)}"


def _gate(status: api.BenchmarkRunStatus, *, decided: bool) -> Iterable[str]:
    compared = status.comparison
    if compared is None or compared.gate is None:
        return
    if decided and compared.gate in _DECIDED:
        yield GATES[compared.gate].partition(": ")[2]
    if not decided and (
        compared.gate not in _DECIDED or compared.gate_price is not None
    ):
        told = _dearest([("", compared.gate_price)])
        yield f"whether any figure got worse by more than is allowed{told}"


def _dearest(prices: Sequence[tuple[str, api.Price | None]]) -> str:
    """Return the highest of several prices in parentheses, with its place where there are others.

    It is empty if no price is known.
    """
    known = [(place, price) for place, price in prices if price is not None]
    if not known:
        return ""
    place, price = max(known, key=lambda each: each[1].weight)
    if len(prices) == 1:
        return f" (about {price.in_words})"
    return f" (up to about {price.in_words}, at {place})"


def _named(names: Iterable[str], *, most: int) -> str:
    """Return the first names as a list in a sentence; the others are counted."""
    every = list(names)
    shown = every if len(every) <= most else [*every[: most - 1]]
    rest = len(every) - len(shown)
    last = f"{rest} more" if rest else shown.pop() if len(shown) > 1 else ""
    return ", ".join(shown) + (f" and {last}" if last else "")
