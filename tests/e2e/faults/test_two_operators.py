"""Two replicas of the operator: one of them works, and the other takes over when it is killed."""

import re
import time
from collections.abc import Iterator

import pytest
from kit.installed import HOME, SELECTOR
from kit.kubectl import RUN, Namespace, Object
from kit.polling import polling
from kit.processes import kill_container
from kit.runs import children_selector, simulated_run

TAKEN_OVER_SECONDS = 20.0
NOTICED_SECONDS = 10.0
PORT = 8080


@pytest.fixture
def two(operator: Namespace) -> Iterator[Namespace]:
    """Two pods of the operator for the time of a test."""
    _scale(2)
    yield operator
    _scale(1)


def _scale(replicas: int) -> None:
    HOME.kubectl(
        "scale", "deployment", f"--selector={SELECTOR}", f"--replicas={replicas}"
    )
    for _ in polling(f"{replicas} operators answer", seconds=120):
        # Not whether they are ready: of two that may be only the one that works.
        if [
            pod["status"]["containerStatuses"][0].get("started")
            for pod in _operators()
        ] == [True] * replicas:
            break


def _operators() -> list[Object]:
    """The operators' pods that have a container, those that end as well."""
    return [
        p
        for p in HOME.list("pods", selector=SELECTOR)
        if p["status"].get("containerStatuses")
    ]


def _writes(pod: str) -> float:
    """Everything it wrote about runs and what they own, since its process began; what keeps a
    leader in office is none of it."""
    page = HOME.kubectl(
        "get",
        "--raw",
        f"/api/v1/namespaces/{HOME.name}/pods/{pod}:{PORT}/proxy/metrics",
    )
    writes = re.findall(
        r"^benchrun_api_writes_total\{(.*)\} (.*)$", page, re.MULTILINE
    )
    return sum(float(count) for labels, count in writes if "leases" not in labels)


def _has_client(namespace: Namespace, name: str) -> bool:
    return bool(
        namespace.list("jobs", selector=children_selector(namespace.get(RUN, name)))
    )


@pytest.mark.timeout(300)
def test_one_of_two_operators_writes_and_the_other_takes_over(
    two: Namespace, namespace: Namespace
) -> None:
    pods = [pod["metadata"]["name"] for pod in _operators()]
    before = {pod: _writes(pod) for pod in pods}
    namespace.apply(
        *(
            simulated_run(f"run-{n}", args=("--sim-load-seconds=600",))
            for n in range(3)
        )
    )
    for n in range(3):
        for _ in polling(f"run-{n} has its client", seconds=NOTICED_SECONDS):
            if _has_client(namespace, f"run-{n}"):
                break
    namespace.wait_for(
        RUN,
        "run-0",
        lambda run: "phase" in run.get("status", {}),
        timeout_seconds=10,
        what="noticed",
    )
    writers = [pod for pod in pods if _writes(pod) > before[pod]]
    assert len(writers) == 1, {pod: _writes(pod) - before[pod] for pod in pods}

    kill_container(two, selector=SELECTOR, pod=writers[0])
    killed = time.monotonic()
    namespace.apply(simulated_run("after"))
    for _ in polling(
        "the run that came after the kill has its client",
        seconds=TAKEN_OVER_SECONDS,
    ):
        if _has_client(namespace, "after"):
            break
    assert time.monotonic() - killed < TAKEN_OVER_SECONDS
