"""What the operator really exposes, and promtool to hold queries against it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

from benchrun.api import BenchmarkRunStatus, Live
from benchrun.observe import HEADLINE_FIGURES, GpuUse, run_key
from benchrun.plan import Owner, TimelinePart, timeline_config_map
from benchrun.runtime.settings import OperatorSettings
from benchrun.runtime.wiring import Operator
from chart.rendering import PROMETHEUS, only, render
from kit.tools import tool
from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str, dict[str, str]]


@cache
def target_labels() -> dict[str, str]:
    """Labels of the chart's target, as the Prometheus operator makes them: `job` is the Service's
    name, or its label named by `jobLabel`, until a relabeling replaces it. A series keeps its own
    labels of these names (honorLabels)."""
    monitored = {
        "metrics": {"serviceMonitor": {"enabled": True}},
        "networkPolicies": {"metricsPeers": [PROMETHEUS]},
    }
    objects = render(monitored)
    service = only(objects, "Service")["metadata"]
    spec = only(objects, "ServiceMonitor")["spec"]
    labels = {
        "job": service["labels"].get(spec.get("jobLabel"), service["name"]),
        "namespace": service["namespace"],
    }
    [endpoint] = spec["endpoints"]
    for rule in endpoint.get("relabelings", ()):
        assert rule.keys() == {"targetLabel", "replacement"}, (
            "only constants are understood here"
        )
        labels[rule["targetLabel"]] = rule["replacement"]
    return labels


def operators_page() -> str:
    """The metrics page of an operator in which everything that can be counted was counted once."""
    operator = Operator(
        OperatorSettings(client_image="client", run_metrics=True),
        decide=cast(Any, None),
    )
    operator.assemble(cast(Any, None), cast(Any, None), b"")
    telemetry = operator.telemetry
    for result in ("success", "conflict", "forbidden"):
        with telemetry.a_pass() as outcome:
            outcome.result = result
    with telemetry.a_scrape():
        pass
    with telemetry.a_scrape() as outcome:
        outcome.result = "failure"
    telemetry.count_write("PATCH", "jobs", "2xx")
    telemetry.watch_event("Pod", "MODIFIED")
    live = Live(
        at="",
        running=1,
        waiting=1,
        kv_cache_percent=1,
        generation_tokens_per_second=1,
    )
    telemetry.live(
        run_key("lab", "now"), BenchmarkRunStatus(live=live), ended=False
    )
    telemetry.gpus_used("lab", dict.fromkeys(get_args(GpuUse), 1.0))
    waiting = operator.waits.runs.of(run_key("lab", "waits"), "2")
    waiting.waits_since = datetime(2026, 11, 21, tzinfo=UTC)
    operator.indexes.heard("BenchmarkRun", _finished_run(), deleted=False)
    operator.indexes.learnt("ConfigMap", _stored_piece())
    return telemetry.page().decode()


def exposed() -> Iterator[Series]:
    """Every series as Prometheus stores it: the operator's, and the one that Prometheus makes for a
    target."""
    yield "up", target_labels()
    for family in text_string_to_metric_families(operators_page()):
        for sample in family.samples:
            yield sample.name, target_labels() | sample.labels


def promtool(*arguments: str | Path) -> str:
    """What promtool says. Fails the test when it finds something wrong."""
    return tool("promtool", *arguments)


def _stored_piece() -> dict[str, Any]:
    owner = Owner(namespace="lab", name="done", uid="1")
    timeline = TimelinePart(b"packed", through=1.0)
    body = timeline_config_map(owner, chunk=0, timeline=timeline)
    body["metadata"] |= {"uid": "2", "resourceVersion": "2"}
    return body


def _finished_run() -> dict[str, Any]:
    result = {
        "loadPoint": "chat/rate=4",
        "workload": "chat",
        "axis": "RequestRate",
        "value": "4",
        "verdict": "Valid",
    }
    return {
        "metadata": {
            "name": "done",
            "namespace": "lab",
            "uid": "1",
            "resourceVersion": "1",
        },
        "status": {
            "conditions": [{"type": "Complete", "status": "True"}],
            "completionTime": "2026-11-21T12:00:00Z",
            "phase": "Completed",
            "verdict": "Valid",
            "results": [result | {"metrics": dict.fromkeys(HEADLINE_FIGURES, 1.0)}],
        },
    }
