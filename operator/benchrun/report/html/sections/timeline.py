"""The run over time: stages, and what the servers did under them."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun_client.contract import StageRecord

from benchrun.api import Result
from benchrun.measure.cells import failed_requests
from benchrun.report.html.blocks import Block, Chart, Fold, Prose, Section, Table
from benchrun.report.html.charts.theme import FINE_SPANS, SPANS, WIDE_WIDTH, spans
from benchrun.report.html.charts.timeline import StageBar, timeline_chart
from benchrun.report.html.reported import Reported
from benchrun.report.rows import Rows, figure

MANY_STAGES = 40
"""From here on a second drawing scrolls, with room for each stage."""
PIXELS_A_STAGE, MAX_WIDTH = 26, 5200


def timeline_section(run: Reported) -> Section | None:
    """By the client's clock for stages, by the operator's for readings; they may differ by some milliseconds."""
    if not run.records and not run.samples:
        return None
    origin = run.records[0].first_send_unix_us / 1e6 if run.records else run.samples[0].at
    stages = _bars(run, origin)
    blocks: list[Block] = [Prose(_lead(run)), *_lost(run), _chart(run, stages, origin, "The run over time", SPANS)]
    if len(stages) > MANY_STAGES:
        width = max(WIDE_WIDTH, min(MAX_WIDTH, PIXELS_A_STAGE * len(stages)))
        chart = _chart(run, stages, origin, "Every stage", FINE_SPANS, width=width)
        blocks.append(Fold("The same, with room for every stage", (chart,)))
    if stages:
        blocks.append(Fold("The stages", (Table("Stages in order of measurement", _rows(run, origin)),)))
    return Section("timeline", "Timeline", tuple(blocks))


def _chart(
    run: Reported, stages: Sequence[StageBar], origin: float, title: str, at_most: int, *, width: int = WIDE_WIDTH
) -> Chart:
    read = spans(run.samples, origin=origin, at_most=at_most)
    since = "the first request" if run.records else "the first reading"
    described = (
        f"{len(stages)} stages over time, and under them the requests that the servers had running and waiting and how full "
        "their KV cache was. The stages are in the table below."
    )
    return Chart(title, timeline_chart(stages, read, since=since, width=width), described, wide=True)


def _lost(run: Reported) -> list[Block]:
    measured = sum(row.repeats for row in run.status.results)
    if len(run.records) >= measured:
        return []
    return [Prose(f"Records of {len(run.records)} of {measured} stages are at hand; the others have no mark.")]


def _lead(run: Reported) -> str:
    if not run.samples:
        return "The stages in order of measurement. No readings of the servers are at hand."
    servers = len({(sample.role, sample.pod) for sample in run.samples})
    of = "the server" if servers == 1 else f"{servers} servers (requests are summed; the KV cache is their mean)"
    return (
        f"Stages are marked with their load. Below them, readings of {of}: lines are means of up to {SPANS} equal spans of time, "
        "and the shade around them reaches from the least to the greatest reading. A gap is where no reading was taken."
    )


def _bars(run: Reported, origin: float) -> list[StageBar]:
    known = {row.cell: row for row in run.status.results}
    named = len({row.workload for row in run.status.results}) > 1
    return [_bar(record, origin, known.get(run.cell_of(record)), named=named) for record in run.records]


def _bar(record: StageRecord, origin: float, row: Result | None, *, named: bool) -> StageBar:
    start, end = record.first_send_unix_us / 1e6 - origin, record.last_receive_unix_us / 1e6 - origin
    label, verdict = (_label(row, named=named), row.verdict) if row is not None else ("", "Unknown")
    told = f"{record.stage_id}: {start:.1f} s to {end:.1f} s; {verdict}"
    return StageBar(start, max(end, start), label, told, verdict)


def _label(row: Result, *, named: bool) -> str:
    """Its load, and its workload where there are several."""
    return f"{row.workload} {row.value}" if named else row.value


def _rows(run: Reported, origin: float) -> Rows:
    rows = tuple(
        (
            record.stage_id,
            figure(record.first_send_unix_us / 1e6 - origin, digits=4),
            figure((record.last_receive_unix_us - record.first_send_unix_us) / 1e6, digits=4),
            str(len(record.requests.ok)),
            str(failed_requests(record)),
        )
        for record in run.records
    )
    return Rows(("stage", "begins (s)", "lasts (s)", "requests", "failed"), rows)
