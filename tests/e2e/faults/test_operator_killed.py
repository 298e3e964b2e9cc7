"""The operator's process is killed at the worst moments: the same stages, the same records, nothing
twice. While a real vLLM loads, test_which_run_is_true.py kills it."""

from collections.abc import Callable

import pytest
from kit.exactly_once import assert_nothing_was_lost_or_done_twice, stored_stages
from kit.installed import SELECTOR
from kit.kubectl import RUN, Namespace, Object
from kit.processes import kill_container
from kit.runs import children_selector, phase, simulated_run


def _mid_stage(run: Object) -> bool:
    return (
        bool(run["status"].get("progress", {}).get("stagesDone") == 1)
        and phase(run) == "Running"
    )


def _collecting(run: Object) -> bool:
    return phase(run) == "Collecting"


WORKLOAD = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 64, "outputTokens": 32}},
    "load": {"concurrencies": [1, 2]},
    "requests": 8,
}


def start(namespace: Namespace) -> None:
    namespace.apply(
        simulated_run(
            "survivor", args=("--sim-tpot-ms=20",), workloads=[WORKLOAD], repeats=2
        )
    )


def once(namespace: Namespace, moment: Callable[[Object], bool]) -> Object:
    return namespace.wait_for(
        RUN,
        "survivor",
        moment,
        timeout_seconds=200,
        what=moment.__name__.strip("_"),
    )


def assert_all_is_as_it_would_have_been(namespace: Namespace) -> None:
    status = assert_nothing_was_lost_or_done_twice(namespace, "survivor")
    assert status["verdict"] in ("Valid", "Suspect"), status["findings"]


@pytest.mark.timeout(600)
def test_an_operator_killed_mid_stage_changes_nothing(
    operator: Namespace, namespace: Namespace
) -> None:
    start(namespace)
    once(namespace, _mid_stage)
    kill_container(operator, selector=SELECTOR)
    assert_all_is_as_it_would_have_been(namespace)


@pytest.mark.timeout(600)
def test_an_operator_killed_while_it_collects_changes_nothing(
    operator: Namespace, namespace: Namespace
) -> None:
    start(namespace)
    once(namespace, _mid_stage)
    # No room for another ConfigMap: what is measured from now on can't be stored, and collecting
    # lasts.
    namespace.kubectl("create", "quota", "full", "--hard=count/configmaps=1")
    collecting = once(namespace, _collecting)
    assert len(stored_stages(namespace, collecting)) < 4
    namespace.wait_gone(
        "deployments", selector=children_selector(collecting), timeout_seconds=30
    )
    kill_container(operator, selector=SELECTOR)
    assert phase(namespace.get(RUN, "survivor")) == "Collecting"
    namespace.kubectl("delete", "quota", "full")
    assert_all_is_as_it_would_have_been(namespace)
