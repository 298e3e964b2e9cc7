"""The operator's process is killed at the worst moments: the same stages, the same records, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kit.kubectl import RUN, Namespace, Object
from kit.processes import kill_container
from kit.runs import VLLM_IMAGE, children_selector, condition, finished, phase, simulated_run

OPERATOR = "app.kubernetes.io/name=benchrun"


def _loading(run: Object) -> bool:
    return phase(run) == "Starting"


def _mid_stage(run: Object) -> bool:
    return bool(run["status"].get("progress", {}).get("stagesDone") == 1) and phase(run) == "Running"


def _last_stage(run: Object) -> bool:
    progress = run["status"].get("progress", {})
    return bool(progress.get("stagesDone") == progress.get("stagesTotal", 0) - 1)


def digests_the_client_told(namespace: Namespace, run: Object) -> set[str]:
    """Of every record, as the client wrote it into its log when the stage was measured."""
    log = namespace.kubectl("logs", "--tail=-1", "-l", f"{children_selector(run)},benchrun.dev/role=client")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"schema":"benchrun.headline')]
    return {line["digest"] for line in lines}


SIMULATOR = {"args": ["--max-model-len=4096", "--sim-load-seconds=8", "--sim-tpot-ms=20"]}
REAL_VLLM = {"image": VLLM_IMAGE, "args": ["--max-model-len=4096", "--max-num-seqs=16", "--enforce-eager"]}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("moment", "server"),
    [
        pytest.param(_loading, REAL_VLLM, id="while-real-vllm-loads"),
        pytest.param(_mid_stage, SIMULATOR, id="mid-stage"),
        pytest.param(_last_stage, SIMULATOR, id="collecting"),
    ],
)
def test_a_killed_operator_changes_nothing(
    operator: Namespace, namespace: Namespace, moment: Callable[[Object], bool], server: dict[str, Any]
) -> None:
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 32}},
        "load": {"concurrencies": [1, 2]},
        "requests": 8,
    }
    namespace.apply(simulated_run("survivor", server=server, workloads=[workload], repeats=2))
    seen = namespace.wait_for(RUN, "survivor", moment, timeout_seconds=200, what=moment.__name__)
    before = {c["metadata"]["uid"] for c in namespace.list("jobs,deployments", selector=children_selector(seen))}
    kill_container(operator, selector=OPERATOR)
    run = finished(namespace, "survivor", timeout_seconds=350)

    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert run["status"]["verdict"] in ("Valid", "Suspect"), run["status"]["findings"]
    assert [r["repeats"] for r in run["status"]["results"]] == [2, 2]
    stages = namespace.list("configmaps", selector=f"{children_selector(run)},benchrun.dev/role=stage")
    assert sorted(int(c["metadata"]["labels"]["benchrun.dev/sequence"]) for c in stages) == [0, 1, 2, 3]
    stored = {c["metadata"]["annotations"]["benchrun.dev/record-digest"] for c in stages}
    assert stored == digests_the_client_told(namespace, run), "a record is not the one that was measured"
    after = {c["metadata"]["uid"] for c in namespace.list("jobs", selector=children_selector(run))}
    assert after <= before, "a client was started twice"
