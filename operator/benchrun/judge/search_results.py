"""What came of searches, by the judged load points: the highest load that met every objective, and how near that is known.

The client chose the loads; the answer does not take its word. A load point whose numbers can't be trusted meets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

from benchrun_client.contract import open_stage

from benchrun.api import BenchmarkRunSpec, Result, Search, SearchResult
from benchrun.judge.rules.rule import CellSummary
from benchrun.measure.cells import rounded
from benchrun.plan.searches import axis_of, searched

Outcome = Literal["Bracketed", "AtUpperBound", "NoneMet", "ProbeLimit", "Inconclusive", "Incomplete"]
SEARCH_BYTES = 1000
"""Room for what is said of one search."""
_UNITS = {"rate": "requests a second", "concurrency": "users at once"}


def search_results(
    spec: BenchmarkRunSpec, cells: Mapping[str, CellSummary], rows: Sequence[Result]
) -> tuple[SearchResult, ...]:
    """One for each search, in their order; `rows`: all of the run, uncut."""
    return tuple(
        _result(workload.name, workload.load.search, _of(workload.name, cells), _rows(workload.name, rows))
        for workload in searched(spec)
        if workload.load.search is not None
    )


def deciding(rows: Sequence[Result], found: Sequence[SearchResult]) -> list[Result]:
    """The rows that a run's verdict rests on: every listed load point, and of a search the load that it found. That a server
    was overloaded above it is part of the answer. A search that found none rests on all it measured."""
    answers = {each.workload: each.lower for each in found}
    return [row for row in rows if answers.get(row.workload) in (None, row.value)]


def outcome_of(row: Result) -> Literal["Met", "Missed", "Inconclusive"]:
    """Of all objectives of a load point."""
    outcomes = {objective.outcome for objective in row.objectives}
    if "Missed" in outcomes:
        return "Missed"
    return "Met" if outcomes == {"Met"} else "Inconclusive"


def _of(workload: str, cells: Mapping[str, CellSummary]) -> list[CellSummary]:
    return [cell for cell in cells.values() if cell.cell.workload == workload]


def _rows(workload: str, rows: Sequence[Result]) -> list[Result]:
    return sorted((row for row in rows if row.workload == workload), key=lambda row: Decimal(row.value))


def _result(workload: str, search: Search, cells: Sequence[CellSummary], rows: Sequence[Result]) -> SearchResult:
    met = [row for row in rows if outcome_of(row) == "Met"]
    lower = met[-1] if met else None
    above = [row for row in rows if lower is None or Decimal(row.value) > Decimal(lower.value)]
    upper = above[0] if above else None
    width = _width_percent(lower, upper)
    outcome = _outcome(search, lower=lower, upper=upper, probes=len(rows)) if _is_complete(cells) else "Incomplete"
    return SearchResult(
        workload=workload,
        axis=axis_of(search),
        outcome=outcome,
        lower=lower.value if lower is not None else None,
        upper=upper.value if upper is not None else None,
        upper_outcome=_upper_outcome(upper),
        resolution_percent=rounded(width),
        probes=len(rows),
        stages=sum(len(cell.stages) for cell in cells),
        sentence=_sentence(search, outcome, lower=lower, upper=upper),
    )


def _is_complete(cells: Sequence[CellSummary]) -> bool:
    """Whether the search ended, and every record of it is here: probes and repeats are numbered without a gap."""
    stages = [stage for cell in cells for stage in cell.stages]
    if not any(stage.probe is not None and stage.probe.ends_search for stage in stages):
        return False
    places = [place for stage in stages if (place := open_stage(stage.stage_id)) is not None]
    numbers = {probe for _, probe, _ in places}
    return numbers == set(range(1, len(numbers) + 1)) and len(places) == sum(len(cell.cell.stage_ids) for cell in cells)


def _outcome(search: Search, *, lower: Result | None, upper: Result | None, probes: int) -> Outcome:
    if lower is None:
        return "NoneMet"
    if upper is None:
        return "AtUpperBound" if Decimal(lower.value) == Decimal(search.to) else "Inconclusive"
    if _is_narrow(search, Decimal(lower.value), Decimal(upper.value)):
        return "Bracketed"
    return "ProbeLimit" if probes == search.max_probes else "Inconclusive"


def _is_narrow(search: Search, lower: Decimal, upper: Decimal) -> bool:
    neighbours = search.axis == "Concurrency" and upper - lower <= 1
    return neighbours or (upper - lower) * 100 <= lower * Decimal(search.tolerance_percent)


def _width_percent(lower: Result | None, upper: Result | None) -> float | None:
    if lower is None or upper is None:
        return None
    return 100 * (float(upper.value) / float(lower.value) - 1)


def _upper_outcome(upper: Result | None) -> Literal["Missed", "Inconclusive"] | None:
    if upper is None:
        return None
    return "Missed" if outcome_of(upper) == "Missed" else "Inconclusive"


def _sentence(search: Search, outcome: Outcome, *, lower: Result | None, upper: Result | None) -> str:
    unit = _UNITS[axis_of(search)]
    above = _above(upper)
    if lower is None:
        found = f"no load met the objectives for certain{above}"
    elif upper is None:
        found = f"the objectives are met at {lower.value} {unit}, the highest load measured"
    else:
        found = f"the objectives are met up to {lower.value} {unit}{above}"
    return f"{found}{_WHY[outcome]}"


def _above(upper: Result | None) -> str:
    if upper is None:
        return ""
    missed = _upper_outcome(upper) == "Missed"
    return f"; at {upper.value} they are missed" if missed else f"; at {upper.value} that is not certain"


_WHY: Mapping[Outcome, str] = {
    "Bracketed": "",
    "AtUpperBound": "; raise load.search.to to look further",
    "NoneMet": "; lower load.search.from, or relax the objectives",
    "ProbeLimit": "; load.search.maxProbes ended the search before the bracket was as narrow as the tolerance",
    "Inconclusive": "; the bracket is wide, since load points within it are not certain: see their rows",
    "Incomplete": "; the search did not come to its end, or a record of it is missing",
}
