"""A run whose load was searched, in the form that a page takes.

Nothing was read of what its server did meanwhile.
"""

from dataclasses import replace
from functools import cache

from benchrun.api import BenchmarkRunSpec, SearchResult
from benchrun.observe import Run
from benchrun.report.html import Reported
from benchrun_client.contract import Probe, StageRecord, open_stage_id
from report_kit.simulated_run import SimulatedRun, simulated_run
from unit.report.html.reported_runs import reported

TRIED = ("4", "8", "16", "32", "24", "20", "18")
"""In this order: doubled, then halved between."""
PAUSE_US = 2_000_000
OBJECTIVES = [{"metric": "TTFT", "percentile": "95", "maxMilliseconds": 200}]


@cache
def searched() -> Reported:
    """Build a search over rates from 4 on, with records named by the number of their load."""
    run = simulated_run(
        "searched", rates=TRIED, repeats=1, requests=400, objectives=OBJECTIVES
    )
    workload = {
        **run.body["workloads"][0],
        "load": {"search": {"axis": "RequestRate", "from": "4", "to": "64"}},
    }
    body = {**run.body, "workloads": [workload]}
    answer = SearchResult(
        workload="chat",
        axis="RequestRate",
        outcome="Bracketed",
        lower="16",
        upper="18",
        upper_outcome="Missed",
        resolution_percent=12.5,
        probes=len(TRIED),
        stages=len(TRIED),
        sentence="the objectives are met up to 16 requests a second; at 18 they are missed",
    )
    return replace(
        reported(run),
        declared=Run("lab", run.name, run.uid, 1, body),
        spec=BenchmarkRunSpec.model_validate(body),
        status=run.status.model_copy(update={"searches": [answer]}),
        records=_as_probes(run),
        samples=(),
    )


def _as_probes(run: SimulatedRun) -> tuple[StageRecord, ...]:
    """Put a run's records one after the other, in the order in which they were tried."""
    by_rate = {
        record.stage_id.partition("=")[2].partition("/")[0]: record
        for record in run.records
    }
    begin = min(record.first_send_unix_us for record in run.records)
    found = []
    for number, rate in enumerate(TRIED, start=1):
        record = by_rate[rate]
        end = begin + record.last_receive_unix_us - record.first_send_unix_us
        update = {
            "stage_id": open_stage_id("chat", number, 1),
            "sequence": number - 1,
            "probe": Probe(ends_search=rate == TRIED[-1]),
            "first_send_unix_us": begin,
            "last_receive_unix_us": end,
        }
        found.append(record.model_copy(update=update))
        begin = end + PAUSE_US
    return tuple(found)
