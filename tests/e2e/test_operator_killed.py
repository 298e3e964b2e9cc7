"""The operator's process is killed at the worst moments: the same stages, the same records, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kit.installed import SELECTOR
from kit.kubectl import RUN, Namespace, Object
from kit.processes import kill_container
from kit.runs import VLLM_IMAGE, children_selector, condition, finished, phase, simulated_run


def _loading(run: Object) -> bool:
    return phase(run) == "Starting"


def _mid_stage(run: Object) -> bool:
    return bool(run["status"].get("progress", {}).get("stagesDone") == 1) and phase(run) == "Running"


def _collecting(run: Object) -> bool:
    return phase(run) == "Collecting"


def digests_the_client_told(namespace: Namespace, run: Object) -> set[str]:
    """Of every record, as the client wrote it into its log when the stage was measured."""
    log = namespace.kubectl("logs", "--tail=-1", "-l", f"{children_selector(run)},benchrun.dev/role=client")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"schema":"benchrun.headline')]
    return {line["digest"] for line in lines}


SIMULATOR = {"args": ["--max-model-len=4096", "--sim-load-seconds=8", "--sim-tpot-ms=20"]}
REAL_VLLM = {"image": VLLM_IMAGE, "args": ["--max-model-len=4096", "--max-num-seqs=16", "--enforce-eager"]}
WORKLOAD = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 64, "outputTokens": 32}},
    "load": {"concurrencies": [1, 2]},
    "requests": 8,
}


def start(namespace: Namespace, server: dict[str, Any]) -> None:
    namespace.apply(simulated_run("survivor", server=server, workloads=[WORKLOAD], repeats=2))


def once(namespace: Namespace, moment: Callable[[Object], bool]) -> Object:
    return namespace.wait_for(RUN, "survivor", moment, timeout_seconds=200, what=moment.__name__.strip("_"))


def stored_stages(namespace: Namespace, run: Object) -> list[Object]:
    return namespace.list("configmaps", selector=f"{children_selector(run)},benchrun.dev/role=stage")


def started(namespace: Namespace) -> dict[str, set[str]]:
    """Every Job and Deployment that ever started a pod here, by kind: their uids, from what their controllers tell."""
    uids: dict[str, set[str]] = {"Job": set(), "Deployment": set()}
    for event in namespace.list("events"):
        about = event["involvedObject"]
        if event["reason"] in ("SuccessfulCreate", "ScalingReplicaSet") and about["kind"] in uids:
            uids[about["kind"]].add(about["uid"])
    return uids


def assert_nothing_was_lost_or_done_twice(namespace: Namespace) -> None:
    """Every stage measured once, every record stored as it was measured, by one client against one server."""
    run = finished(namespace, "survivor", timeout_seconds=350)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert run["status"]["verdict"] in ("Valid", "Suspect"), run["status"]["findings"]
    assert [r["repeats"] for r in run["status"]["results"]] == [2, 2]
    stages = stored_stages(namespace, run)
    assert sorted(int(c["metadata"]["labels"]["benchrun.dev/sequence"]) for c in stages) == [0, 1, 2, 3]
    stored = {c["metadata"]["annotations"]["benchrun.dev/record-digest"] for c in stages}
    assert stored == digests_the_client_told(namespace, run), "a record is not the one that was measured"
    assert {kind: len(uids) for kind, uids in started(namespace).items()} == {"Job": 1, "Deployment": 1}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("moment", "server"),
    [
        pytest.param(_loading, REAL_VLLM, id="while-real-vllm-loads"),
        pytest.param(_mid_stage, SIMULATOR, id="mid-stage"),
    ],
)
def test_a_killed_operator_changes_nothing(
    operator: Namespace, namespace: Namespace, moment: Callable[[Object], bool], server: dict[str, Any]
) -> None:
    start(namespace, server)
    once(namespace, moment)
    kill_container(operator, selector=SELECTOR)
    assert_nothing_was_lost_or_done_twice(namespace)


@pytest.mark.timeout(600)
def test_an_operator_killed_while_it_collects_changes_nothing(operator: Namespace, namespace: Namespace) -> None:
    start(namespace, SIMULATOR)
    once(namespace, _mid_stage)
    # No room for another ConfigMap: what is measured from now on can't be stored, and collecting lasts.
    namespace.kubectl("create", "quota", "full", "--hard=count/configmaps=1")
    collecting = once(namespace, _collecting)
    assert len(stored_stages(namespace, collecting)) < 4
    namespace.wait_gone("deployments", selector=children_selector(collecting), timeout_seconds=30)
    kill_container(operator, selector=SELECTOR)
    assert phase(namespace.get(RUN, "survivor")) == "Collecting"
    namespace.kubectl("delete", "quota", "full")
    assert_nothing_was_lost_or_done_twice(namespace)
