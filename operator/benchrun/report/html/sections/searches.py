"""The course of each search: load after load, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun_client.contract import open_stage

from benchrun.api.status import Result, SearchResult
from benchrun.judge.searching import outcome_of
from benchrun.report.html.blocks import Block, Chart, Charts, Heading, Prose, Section, Table
from benchrun.report.html.charts.search_course import Probe, course_chart
from benchrun.report.html.reported import AXIS_TITLES, Reported
from benchrun.report.rows import ABSENT, Rows, figure

LEAST_PROBES = 2
"""With one there is no course."""


def searches_section(run: Reported) -> Section | None:
    """Where a load was searched."""
    blocks = [block for search in run.status.searches for block in _of_search(run, search)]
    return Section("search", "The course of the search", tuple(blocks)) if blocks else None


def _of_search(run: Reported, search: SearchResult) -> list[Block]:
    numbers = _numbers(run, search.workload)
    rows = [row for row in run.status.results if row.workload == search.workload]
    ordered = sorted(rows, key=lambda row: (numbers.get(row.cell, len(numbers) + 1), float(row.value)))
    if not ordered:
        return []
    blocks: list[Block] = [Heading(search.workload), Prose(f"{search.outcome}: {search.sentence}.")]
    probes = [_probe(row, numbers[row.cell]) for row in ordered if row.cell in numbers]
    if len(probes) >= LEAST_PROBES:
        lower = float(search.lower) if search.lower is not None else None
        chart = course_chart(probes, axis_title=AXIS_TITLES[ordered[0].axis], lower=lower)
        described = (
            f"{search.workload}: the loads that were tried, in order, each with its outcome. The table below has them."
        )
        dashed = " Dashed: the highest load that met every objective." if lower is not None else ""
        blocks += [
            Prose(f"Each load follows from the outcomes before it.{dashed}"),
            Charts((Chart("Load after load", chart, described),)),
        ]
    if len(probes) < len(ordered):
        blocks.append(
            Prose("Not all records are at hand: when the loads without a number were tried, nobody can tell.")
        )
    return [*blocks, Table("Loads that were tried", _rows(ordered, numbers), words=frozenset({"outcome", "verdict"}))]


def _numbers(run: Reported, workload: str) -> dict[str, int]:
    """When each cell was first tried, from 1."""
    found: dict[str, int] = {}
    for record in run.records:
        place = open_stage(record.stage_id)
        if record.probe is not None and place is not None and place[0] == workload:
            found.setdefault(run.cell_of(record), place[1])
    return found


def _probe(row: Result, number: int) -> Probe:
    outcome = outcome_of(row)
    return Probe(number, float(row.value), outcome, f"{row.cell}: {outcome}; {row.verdict}")


def _rows(rows: Sequence[Result], numbers: dict[str, int]) -> Rows:
    objectives = list(dict.fromkeys(f"{o.metric} p{o.percentile}" for row in rows for o in row.objectives))
    headers = ("tried", "load", "stages", *(f"{name} (ms)" for name in objectives), "tok/s", "outcome", "verdict")
    return Rows(headers, tuple(_row(row, numbers.get(row.cell), objectives) for row in rows))


def _row(row: Result, number: int | None, objectives: Sequence[str]) -> tuple[str, ...]:
    measured = {f"{o.metric} p{o.percentile}": o.measured_milliseconds for o in row.objectives}
    return (
        ABSENT if number is None else str(number),
        row.value,
        str(row.repeats),
        *(figure(measured.get(name), digits=4) for name in objectives),
        figure(row.metrics.get("output_throughput")),
        outcome_of(row),
        row.verdict,
    )
