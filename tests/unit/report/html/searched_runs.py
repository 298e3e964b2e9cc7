"""A run whose load was searched, in the form that a page takes.

Nothing was read of what its server did meanwhile.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from benchrun.api import BenchmarkRunSpec, SearchResult, StageResult
from benchrun.observe import Run
from benchrun.report.html import Reported
from benchrun_client.contract import open_stage_id
from report_kit.simulated_run import simulated_run
from unit.report.html.reported_runs import reported

TRIED = ("4", "8", "16", "32", "24", "20", "18")
"""In this order: doubled, then halved between."""
PAUSE_US = 2_000_000
OBJECTIVES = [{"metric": "TTFT", "percentile": "95", "maxMilliseconds": 200}]


@cache
def searched() -> Reported:
    """Build a search over rates from 4 on, with stages named by the number of their load."""
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
    status = run.status.model_copy(update={"searches": [answer]})
    spec = BenchmarkRunSpec.model_validate(body)
    return replace(
        reported(run),
        declared=Run("lab", run.name, run.uid, 1, body),
        spec=spec,
        status=status,
        document=run.document.model_copy(
            update={
                "spec": spec,
                "searches": [answer],
                "stages": _as_probes(run.document.stages),
                "timeline": None,
            }
        ),
    )


def _as_probes(stages: Sequence[StageResult]) -> list[StageResult]:
    """Put a run's stages one after the other, in the order in which they were tried."""
    by_load_point = {stage.load_point: stage for stage in stages}
    begin = min(stage.first_send_unix_us for stage in stages)
    found = []
    for number, rate in enumerate(TRIED, start=1):
        stage = by_load_point[f"chat/rate={rate}"]
        end = begin + stage.last_receive_unix_us - stage.first_send_unix_us
        update = {
            "id": open_stage_id("chat", number, 1),
            "sequence": number - 1,
            "first_send_unix_us": begin,
            "last_receive_unix_us": end,
        }
        found.append(stage.model_copy(update=update))
        begin = end + PAUSE_US
    return found
