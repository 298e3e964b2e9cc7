"""llm-d benchmark report v0.2, one a stage: what llm-d's analysis and its dashboards read.

https://github.com/llm-d/llm-d-benchmark, llmdbenchmark/analysis/benchmark_report. Its own name for a report of one stage of a
run with several load points is kept: reports of a run have one `run.eid`, and `stage` is the place in the order of measurement.
"""

from __future__ import annotations

import yaml

from benchrun.api.names import ROLE_PROXY
from benchrun.report.export.exported import ExportedRun, ExportedStage, pools
from benchrun.report.export.files import Files, Json, NotExportable, without_unknown
from benchrun.report.export.llmd_scenario import scenario
from benchrun.report.export.llmd_statistics import latency, requests, resources, throughput

VERSION = "0.2"


def llmd_files(run: ExportedRun) -> Files:
    """Named as llm-d looks for them."""
    return {
        f"benchmark_report_v{VERSION},_{stage.file_name}.yaml": _as_yaml(report(run, stage)) for stage in run.stages
    }


def llmd_document(run: ExportedRun) -> bytes:
    """The report of the only stage. Raises NotExportable for several."""
    if len(run.stages) != 1:
        raise NotExportable(
            f"{len(run.stages)} stages are as many reports: name a folder to write them to, or one stage with --stage"
        )
    return _as_yaml(report(run, run.stages[0]))


def report(run: ExportedRun, stage: ExportedStage) -> Json:
    """One report. Nothing in it is 0 for want of a number: what is not known is left out."""
    return {
        "version": VERSION,
        "run": {
            "uid": f"{run.uid}/{stage.id}",
            "eid": run.uid,
            "time": {
                "start": stage.began.isoformat(),
                "end": stage.ended.isoformat(),
                "duration": f"PT{(stage.ended - stage.began).total_seconds():f}S",
            },
            "description": f"{run.spec.model.name} {stage.id} [{run.namespace}/{run.name}]: {_judged(stage)}",
            "keywords": ["benchrun", f"verdict={stage.verdict}", *(f"finding={code}" for code in stage.findings)],
        },
        "scenario": scenario(run, stage),
        "results": without_unknown(
            {
                "request_performance": {
                    "aggregate": {
                        "requests": requests(stage.record),
                        "latency": latency(pools([stage])),
                        "throughput": throughput(stage.record),
                    }
                },
                "observability": _observability(stage),
                "component_health": _health(run),
            }
        ),
    }


def _judged(stage: ExportedStage) -> str:
    return f"{stage.verdict} ({', '.join(stage.findings)})" if stage.findings else stage.verdict


def _observability(stage: ExportedStage) -> Json | None:
    components = [
        {"component_label": each.role, "aggregate": said} for each in stage.servers if (said := resources(each))
    ]
    return {"components": components} if components else None


def _health(run: ExportedRun) -> list[Json] | None:
    if run.spec.started is None or run.server is None:
        return None
    return [
        {"component_label": server.role, "total_restarts": server.restarts}
        for server in run.status.servers
        if server.role != ROLE_PROXY
    ]


def _as_yaml(value: Json) -> bytes:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()
