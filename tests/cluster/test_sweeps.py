"""A sweep beside a real API server: its runs come one after the other, each once, whatever happens
to the operator.

Runs are not measured here: the test writes the status with which each of them ends.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.test_operator_process import Process, start
from kit.kubectl import RUN, SWEEP, Namespace, Object
from kit.polling import polling
from kit.runs import condition, is_finished, phase, simulated_run
from unit.judge.comparison.sides import row

APPEARS_SECONDS = 60.0
THROUGHPUT = {"v1": 1000.0, "v2": 1250.0, "v3": 990.0}
"""What each variant's run has measured."""


@pytest.fixture
def operators(namespace: Namespace) -> Iterator[list[Process]]:
    """Operators that a test started; none is left afterwards."""
    started: list[Process] = []
    yield started
    for process in started:
        if not process.ended:
            process.stop(signal.SIGKILL)


def sweep(name: str, **spec: Any) -> Object:
    """Three variants of a small run."""
    variants = [
        {"name": "base"},
        *({"name": f"seqs-{n}", "args": [f"--max-num-seqs={n}"]} for n in (8, 16)),
    ]
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {"name": name},
        "spec": {
            "template": simulated_run("any")["spec"],
            "matrix": {"variants": variants},
            **spec,
        },
    }


def runs_of(namespace: Namespace, name: str) -> dict[str, Object]:
    return {
        run["metadata"]["name"]: run
        for run in namespace.list(RUN, selector=f"benchrun.dev/sweep={name}")
    }


def new_run(namespace: Namespace, name: str, known: set[str]) -> Object:
    """The next run of the sweep, once it is there."""
    for _ in polling(
        f"a run of {name} besides {sorted(known)}", seconds=APPEARS_SECONDS
    ):
        found = [
            run
            for run_name, run in runs_of(namespace, name).items()
            if run_name not in known
        ]
        if found:
            return found[0]
    raise AssertionError


def end(namespace: Namespace, run: Object, *, reason: str | None = None) -> None:
    """The run ends, measured or for a reason."""
    name = run["metadata"]["name"]
    throughput = THROUGHPUT[name.split("-")[1]]
    result = row(
        "chat/concurrency=2", repeats=5, cv=1.0, OutputThroughput=throughput
    )
    told = {
        "type": "Complete" if reason is None else "Failed",
        "status": "True",
        "reason": reason or "Measured",
        "message": "by the test",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "conditions": [told],
        "phase": "Completed" if reason is None else "Failed",
        "completionTime": "2026-01-01T00:00:00Z",
        "results": [
            result.model_dump(mode="json", by_alias=True, exclude_none=True)
        ]
        if reason is None
        else [],
    }
    namespace.patch(RUN, name, {"status": status}, subresource="status")


def table(found: Object) -> Any:
    """What a reader of the status sees, but for instants."""
    status = found["status"]
    return {
        key: status.get(key)
        for key in (
            "results",
            "best",
            "front",
            "variants",
            "runs",
            "verdict",
            "message",
        )
    }


def finished(namespace: Namespace, name: str) -> Object:
    return namespace.wait_for(
        SWEEP, name, is_finished, timeout_seconds=APPEARS_SECONDS, what="finished"
    )


def played(
    namespace: Namespace,
    operators: list[Process],
    tmp_path: Path,
    name: str,
    *,
    killed: bool,
) -> Object:
    """A sweep from creation to end. Killed: a new operator after every run that appears, and after
    every one that ends."""
    process = start(operators, namespace, tmp_path)
    namespace.apply(sweep(name))
    uids: dict[str, str] = {}
    for _ in range(3):
        run = new_run(namespace, name, set(uids))
        uids[run["metadata"]["name"]] = run["metadata"]["uid"]
        if killed:
            process.stop(signal.SIGKILL)
            process = start(operators, namespace, tmp_path)
        end(namespace, run)
        if killed:
            process.stop(signal.SIGKILL)
            process = start(operators, namespace, tmp_path)
    over = finished(namespace, name)
    process.stop()
    assert {
        run_name: run["metadata"]["uid"]
        for run_name, run in runs_of(namespace, name).items()
    } == uids
    return over


@pytest.mark.timeout(600)
def test_a_killed_operator_changes_nothing_in_the_table(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    undisturbed = played(namespace, operators, tmp_path, "calm", killed=False)
    disturbed = played(namespace, operators, tmp_path, "storm", killed=True)
    assert table(disturbed) == table(undisturbed)
    assert phase(disturbed) == "Completed"
    assert [
        (r["variant"], r["metrics"]["output_throughput"])
        for r in disturbed["status"]["results"]
    ] == [
        ("base", 1000),
        ("seqs-8", 1250),
        ("seqs-16", 990),
    ]
    assert [
        (v["name"], v.get("outcome")) for v in disturbed["status"]["variants"]
    ] == [
        ("base", None),
        ("seqs-8", "Better"),
        ("seqs-16", "NoDetectableDifference"),
    ]
    assert disturbed["status"]["best"][0]["variant"] == "seqs-8"
    head, line = namespace.kubectl("get", "bms", "storm").splitlines()
    assert head.split() == ["NAME", "PHASE", "RUNS", "VERDICT", "BEST", "AGE"]
    assert line.split()[:5] == ["storm", "Completed", "3/3", "Valid", "seqs-8"]


@pytest.mark.timeout(300)
def test_a_failed_variant_is_a_row_and_the_others_are_measured(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    start(operators, namespace, tmp_path)
    namespace.apply(sweep("lame", order="AsListed"))
    known: set[str] = set()
    for reason in (None, "OutOfGPUMemory", None):
        run = new_run(namespace, "lame", known)
        known.add(run["metadata"]["name"])
        end(namespace, run, reason=reason)
    over = finished(namespace, "lame")
    assert condition(over, "Succeeded")["reason"] == "RunsFailed"
    assert [r.get("reason") for r in over["status"]["results"]] == [
        None,
        "OutOfGPUMemory",
        None,
    ]


@pytest.mark.timeout(300)
def test_cancel_reaches_the_runs_and_deletion_removes_them(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    start(operators, namespace, tmp_path)
    namespace.apply(sweep("brief", maxParallel=2))
    first = new_run(namespace, "brief", set())
    second = new_run(namespace, "brief", {first["metadata"]["name"]})
    namespace.patch(SWEEP, "brief", {"spec": {"cancel": True}})
    over = finished(namespace, "brief")
    assert phase(over) == "Cancelled"
    for run in (first, second):
        assert phase(namespace.get(RUN, run["metadata"]["name"])) == "Cancelled"
    assert len(runs_of(namespace, "brief")) == 2
    namespace.delete(SWEEP, "brief")
    namespace.wait_gone(
        RUN, selector="benchrun.dev/sweep=brief", timeout_seconds=60
    )


@pytest.mark.timeout(300)
def test_a_run_of_somebody_elses_is_left_alone(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    namespace.apply(simulated_run("taken-v1-r1", suspend=True))
    before = namespace.get(RUN, "taken-v1-r1")["metadata"]["uid"]
    start(operators, namespace, tmp_path)
    namespace.apply(sweep("taken", order="AsListed"))
    over = finished(namespace, "taken")
    assert condition(over, "Failed")["reason"] == "Conflict"
    assert namespace.get(RUN, "taken-v1-r1")["metadata"]["uid"] == before
    assert (
        condition(namespace.get(RUN, "taken-v1-r1"), "Failed").get("status")
        != "True"
    )


@pytest.mark.timeout(300)
def test_a_lost_run_is_measured_anew_once_whatever_happens_to_the_operator(
    namespace: Namespace, operators: list[Process], tmp_path: Path
) -> None:
    process = start(operators, namespace, tmp_path)
    namespace.apply(sweep("shaky", order="AsListed"))
    uids: dict[str, str] = {}
    for reason in ("Evicted", None, None, None):
        run = new_run(namespace, "shaky", set(uids))
        uids[run["metadata"]["name"]] = run["metadata"]["uid"]
        process.stop(signal.SIGKILL)
        end(namespace, run, reason=reason)
        process = start(operators, namespace, tmp_path)
    over = finished(namespace, "shaky")
    assert list(uids) == [
        "shaky-v1-r1",
        "shaky-v1-r1-a2",
        "shaky-v2-r1",
        "shaky-v3-r1",
    ]
    assert {
        name: run["metadata"]["uid"]
        for name, run in runs_of(namespace, "shaky").items()
    } == uids
    assert condition(over, "Succeeded")["status"] == "True"
    counted = [
        (v["completed"], v["failed"], v["lost"]) for v in over["status"]["variants"]
    ]
    assert counted == [(1, 0, 1), (1, 0, 0), (1, 0, 0)]
