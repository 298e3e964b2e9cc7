"""Simulated runs in the form that a page takes, and a drawer that draws nothing."""

from dataclasses import replace
from functools import cache
from typing import Any

from benchrun.api import (
    BenchmarkRunSpec,
    Bottleneck,
    Finding,
    ServerStatus,
    Waiting,
)
from benchrun.observe import Run
from benchrun.report.html import (
    Chart,
    Charts,
    ChartSpec,
    Element,
    Fold,
    Prose,
    Reported,
    Section,
    Table,
)
from benchrun.report.html.page import page
from report_kit.simulated_run import SimulatedRun, held_against, simulated_run

HOSTILE = """</pre></style><script>alert("x")</script><img src=x onerror=alert(1)> {{ 7*7 }} {% raw %} "'&amp; javascript:"""
RATES = ("2", "8", "12", "16", "20", "inf")


@cache
def measured() -> SimulatedRun:
    """Build a run of six load points, from a tenth of the capacity to beyond it, twice each."""
    return simulated_run(
        "measured",
        rates=RATES,
        repeats=2,
        requests=200,
        objectives=[{"metric": "TTFT", "maxMilliseconds": 200}],
    )


@cache
def compared() -> SimulatedRun:
    """Build the same run compared with a slower server."""
    return held_against(
        measured(),
        simulated_run("slower", rates=RATES, repeats=2, requests=200, slowness=1.2),
    )


def reported(run: SimulatedRun | None = None, **changes: Any) -> Reported:
    """Return a run in the form the command hands over; `changes` replace fields."""
    run = run or measured()
    declared = Run("lab", run.name, run.uid, 1, run.body)
    return replace(
        Reported(declared, run.spec, run.status, run.document),
        **changes,
    )


def with_document(report: Reported, **changes: Any) -> Reported:
    """Return the report with other fields in its document."""
    assert report.document is not None
    return replace(report, document=report.document.model_copy(update=changes))


def with_status(report: Reported, **changes: Any) -> Reported:
    """Return the report with other fields in its status."""
    return replace(report, status=report.status.model_copy(update=changes))


def hostile() -> Reported:
    """Build a report in which every field that users can write holds the same hostile text."""
    run = reported(compared())
    spec = BenchmarkRunSpec.model_validate(
        {**measured().body, "model": {"name": HOSTILE}}
    )
    finding = Finding(
        code=HOSTILE[:60],
        severity="Note",
        count=1,
        worst_stage=HOSTILE,
        evidence={HOSTILE: HOSTILE},
        sentence=HOSTILE,
        meaning=HOSTILE,
        remedy=HOSTILE,
    )
    rows = [
        row.model_copy(
            update={
                "waiting": Waiting(reason="Unknown", sentence=HOSTILE),
                "bottleneck": Bottleneck(limit="Unknown", sentence=HOSTILE),
            }
        )
        for row in run.status.results
    ]
    server = ServerStatus(
        engine="VLLM",
        role="server",
        image=HOSTILE,
        node=HOSTILE,
        args=[HOSTILE],
        reported={HOSTILE: HOSTILE},
        version=HOSTILE[:100],
    )
    run = with_status(
        run,
        findings=[finding],
        results=rows,
        servers=[server],
        message=HOSTILE,
        log_tail=HOSTILE,
    )
    declared = replace(
        run.declared,
        name=HOSTILE,
        namespace=HOSTILE,
        spec={"model": {"name": HOSTILE}},
    )
    return replace(run, declared=declared, spec=spec, notes=(HOSTILE,))


def plain(spec: ChartSpec) -> str:
    del spec
    return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><path d="M0,0h1"/></svg>'


def page_of(report: Reported) -> str:
    """Return the page, without its drawings."""
    return page(report, plain, made_by="0.1.0")


def charts_of(section: Section) -> list[Chart]:
    """Return all charts of a section, in order."""
    return [chart for block in _flat(section.elements) for chart in _charts(block)]


def tables_of(section: Section) -> list[Table]:
    """Return all tables of a section, folded ones included."""
    return [block for block in _flat(section.elements) if isinstance(block, Table)]


def prose_of(section: Section) -> str:
    return "\n".join(
        block.text for block in _flat(section.elements) if isinstance(block, Prose)
    )


def data_of(spec: ChartSpec) -> list[dict[str, Any]]:
    """Return all rows within a chart, of all layers and panels."""
    found: list[dict[str, Any]] = []
    stack: list[Any] = [spec]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            found += (
                each.get("values", [])
                if isinstance(each.get("values"), list) and _is_data(each)
                else []
            )
            stack += each.values()
        elif isinstance(each, list | tuple):
            stack += each
    return found


def _is_data(each: dict[str, Any]) -> bool:
    return set(each) == {"values"} and all(
        isinstance(row, dict) for row in each["values"]
    )


def _flat(blocks: tuple[Element, ...]) -> list[Element]:
    return [
        each
        for block in blocks
        for each in (
            [block, *_flat(block.elements)] if isinstance(block, Fold) else [block]
        )
    ]


def _charts(block: Element) -> tuple[Chart, ...]:
    if isinstance(block, Charts):
        return block.charts
    return (block,) if isinstance(block, Chart) else ()
