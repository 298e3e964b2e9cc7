"""Find the results of searches: the highest load that met every objective.

Results are computed from the judged load points. The client chose the loads, but its own conclusion
is not used. A load point whose numbers can't be trusted does not meet the objectives. The answer is
a load that later stages confirmed; the choice of the load does not rest on these stages.
"""

from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from typing import Literal

from benchrun_client.contract import kind_of, open_stage

from benchrun.api import BenchmarkRunSpec, LoadPoint, Result, Search, SearchResult
from benchrun.judge.rules.rule import StageSummary
from benchrun.measure import rounded
from benchrun.names import confirmation_id
from benchrun.plan import searched

Outcome = Literal[
    "Bracketed",
    "AtUpperBound",
    "NoneMet",
    "ProbeLimit",
    "Inconclusive",
    "Incomplete",
]
SEARCH_BYTES = 1000  # Bytes for the result of one search.


def search_results(
    spec: BenchmarkRunSpec,
    load_points: Sequence[LoadPoint],
    measured: Mapping[str, Sequence[StageSummary]],
    rows: Sequence[Result],
) -> list[SearchResult]:
    """Return one result for each search, in the order of the searches.

    `measured` has the stages of each load point, by its id. `rows` has all rows of the run, with
    nothing cut.
    """
    found = []
    for name, search in searched(spec).items():
        by_id = {each.id: each for each in load_points if each.workload == name}
        of_workload = list(by_id.values())
        stages = [
            stage for load_point in of_workload for stage in measured[load_point.id]
        ]
        of_rows = sorted(
            (r for r in rows if r.workload == name),
            key=lambda row: Decimal(row.value),
        )
        found.append(_result(name, search, of_workload, stages, of_rows))
    return found


def deciding(rows: Sequence[Result], found: Sequence[SearchResult]) -> list[Result]:
    """Return the rows that decide a run's verdict.

    These are every listed load point and, for each search, only the load that it found, because a
    search has to overload the server at higher loads. If a search found no load, all its rows
    count.
    """
    answers = {each.workload: each.lower for each in found}
    kept = [row for row in rows if answers.get(row.workload) in (None, row.value)]
    # If a load was confirmed, only the confirmation counts: the probe that led there may have been
    # lucky.
    load_points = {row.load_point for row in kept}
    return [
        row for row in kept if confirmation_id(row.load_point) not in load_points
    ]


def _result(
    workload: str,
    search: Search,
    load_points: Sequence[LoadPoint],
    stages: Sequence[StageSummary],
    rows: Sequence[Result],
) -> SearchResult:
    confirming = {
        load_point.id for load_point in load_points if load_point.confirms
    }
    confirmations = [row for row in rows if row.load_point in confirming]
    # Probes only find the load to confirm; their rows count only if nothing was confirmed.
    met = [row for row in confirmations or rows if row.objectives_outcome == "Met"]
    lower = met[-1] if met else None
    least = Decimal(lower.value if lower is not None else 0)
    above = [
        row
        for row in rows
        if row.objectives_outcome != "Met" and Decimal(row.value) > least
    ]
    upper = above[0] if above else None
    width = (
        None
        if lower is None or upper is None
        else 100 * (float(upper.value) / float(lower.value) - 1)
    )
    outcome = "Incomplete"
    why = "; the search did not end, or one of its records is missing"
    if _is_complete(search, load_points, stages):
        outcome, why = _outcome(
            search, rows, confirmations, lower=lower, upper=upper
        )
    missed = upper is not None and upper.objectives_outcome == "Missed"
    return SearchResult(
        workload=workload,
        axis=search.axis,
        outcome=outcome,
        lower=lower.value if lower is not None else None,
        upper=upper.value if upper is not None else None,
        upper_outcome=None
        if upper is None
        else "Missed"
        if missed
        else "Inconclusive",
        resolution_percent=rounded(width),
        probes=len(rows),
        stages=len(stages),
        sentence=_sentence(search, lower=lower, upper=upper, missed=missed) + why,
    )


def _is_complete(
    search: Search, load_points: Sequence[LoadPoint], stages: Sequence[StageSummary]
) -> bool:
    """Return whether the search has ended and every stage up to its end has a record."""
    has_ended = any(
        stage.probe is not None and stage.probe.ends_search for stage in stages
    )
    found = (open_stage(stage.stage_id) for stage in stages)
    places = [place for place in found if place is not None]
    planned = sum(len(load_point.stage_ids) for load_point in load_points)
    numbers = {probe for _, probe, _ in places}
    return (
        has_ended
        and _has_no_gap(numbers, search.max_probes)
        and len(places) == planned
    )


def _has_no_gap(numbers: Set[int], max_probes: int) -> bool:
    """Return whether no probe and no confirmation is missing between the first and the last."""
    looks = {number for number in numbers if number <= max_probes}
    confirmations = {number - max_probes for number in numbers - looks}
    return all(
        some == set(range(1, len(some) + 1)) for some in (looks, confirmations)
    )


def _outcome(
    search: Search,
    rows: Sequence[Result],
    confirmations: Sequence[Result],
    *,
    lower: Result | None,
    upper: Result | None,
) -> tuple[Outcome, str]:
    if not confirmations:
        if lower is None:
            return "NoneMet", "; lower load.search.from, or relax the objectives"
        return "Inconclusive", "; no later stages confirmed this load"
    met = {
        row.value
        for row in rows
        if row not in confirmations and row.objectives_outcome == "Met"
    }
    if changed := [
        row.value
        for row in confirmations
        if row.objectives_outcome == "Missed" and row.value in met
    ]:
        why = (
            "they were met at first and missed when measured again: the server got "
            "slower, or the first result was chance"
        )
        return "Inconclusive", f"; at {changed[0]} {why}"
    if lower is None:
        why = "they were met once, but later stages did not confirm it: measure longer stages"
        return "Inconclusive", f"; at {confirmations[-1].value} {why}"
    low = Decimal(lower.value)
    if upper is None:
        at_bound = low == Decimal(search.to)
        return (
            ("AtUpperBound", "; raise load.search.to to look further")
            if at_bound
            else ("Inconclusive", _WIDE)
        )
    width = Decimal(upper.value) - low
    if (
        kind_of(search.axis, search.to).is_whole and width <= 1
    ) or width * 100 <= low * Decimal(search.tolerance_percent):
        return "Bracketed", ""
    if len(rows) - len(confirmations) == search.max_probes:
        return (
            "ProbeLimit",
            "; the search ended at load.search.maxProbes before its range was as "
            "narrow as the tolerance",
        )
    return "Inconclusive", _WIDE


_WIDE = (
    "; the range above it is wide, because it is not certain whether load points "
    "there meet the objectives: see their rows"
)


def _sentence(
    search: Search, *, lower: Result | None, upper: Result | None, missed: bool
) -> str:
    unit = kind_of(search.axis, search.to).unit_in_words
    above = (
        ""
        if upper is None
        else (
            f"; at {upper.value} "
            f"{'they are missed' if missed else 'it is not certain whether they are met'}"
        )
    )
    if lower is None:
        return f"no load met the objectives for certain{above}"
    if upper is None:
        return f"the objectives are met at {lower.value} {unit}, the highest load measured"
    return f"the objectives are met up to {lower.value} {unit}{above}"
