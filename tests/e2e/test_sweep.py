"""Sweeps with real pods: the table comes out by itself, whoever is killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kit.kubectl import RUN, SWEEP, Namespace, Object
from kit.polling import polling
from kit.processes import kill_container
from kit.runs import children_selector, condition, is_finished, phase, simulated_run

OPERATOR = "app.kubernetes.io/name=benchrun"
RUN_SECONDS = 200.0


def sweep(name: str, **spec: Any) -> Object:
    """How many sequences at a time: 1, 2 or 4, under 4 users who do not wait between questions."""
    workload = {
        "name": "users",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [4]},
        "requests": 60,
    }
    server = {"args": ["--max-model-len=4096", "--sim-ttft-ms=40", "--sim-tpot-ms=10"]}
    template = simulated_run("any", server=server, workloads=[workload], repeats=2)["spec"]
    values = [{"name": n, "args": [f"--max-num-seqs={n}"]} for n in ("1", "2", "4")]
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {"name": name},
        "spec": {"template": template, "matrix": {"grid": [{"name": "seqs", "values": values}]}, **spec},
    }


def runs_of(namespace: Namespace, name: str) -> dict[str, Object]:
    return {run["metadata"]["name"]: run for run in namespace.list(RUN, selector=f"benchrun.dev/sweep={name}")}


def one_by_one(namespace: Namespace, name: str, *, count: int) -> Iterator[Object]:
    """The sweep's runs, each as soon as it is there."""
    seen: set[str] = set()
    for _ in polling(f"{count} runs of {name}", seconds=count * RUN_SECONDS):
        for run_name, run in runs_of(namespace, name).items():
            if run_name not in seen:
                seen.add(run_name)
                yield run
        if len(seen) == count:
            return


def is_measuring(run: Object) -> bool:
    """Its first request was sent; `Running` begins with the server, and a restart before the first request does no harm."""
    return "startTime" in run.get("status", {}) or is_finished(run)


def finished(namespace: Namespace, name: str) -> Object:
    return namespace.wait_for(SWEEP, name, is_finished, timeout_seconds=3 * RUN_SECONDS, what="finished")


def throughputs(found: Object) -> dict[str, float]:
    return {row["variant"]: row["metrics"]["output_throughput"] for row in found["status"]["results"] if row["runs"]}


@pytest.mark.timeout(900)
def test_an_operator_that_is_killed_again_and_again_ends_with_the_same_table(
    operator: Namespace, namespace: Namespace
) -> None:
    namespace.apply(sweep("storm"))
    uids = {}
    for number, run in enumerate(one_by_one(namespace, "storm", count=3)):
        uids[run["metadata"]["name"]] = run["metadata"]["uid"]
        if number == 1:
            name = run["metadata"]["name"]
            namespace.wait_for(RUN, name, is_measuring, timeout_seconds=RUN_SECONDS, what="measuring")
        # Four times would take minutes: kubelet restarts what died again and again later and later.
        kill_container(operator, selector=OPERATOR)
    over = finished(namespace, "storm")

    assert phase(over) == "Completed", over["status"]
    assert {name: run["metadata"]["uid"] for name, run in runs_of(namespace, "storm").items()} == uids
    # An answer takes 190 ms, so that a server that takes n at a time gives n x 84 tokens a second.
    found = throughputs(over)
    assert list(found) == ["seqs=1", "seqs=2", "seqs=4"]
    assert found["seqs=2"] == pytest.approx(2 * found["seqs=1"], rel=0.2)
    assert found["seqs=4"] == pytest.approx(4 * found["seqs=1"], rel=0.2)
    words = {
        row["variant"]: change["word"]
        for row in over["status"]["results"]
        for change in row.get("changes", [])
        if change["metric"] == "OutputThroughput"
    }
    assert words == {"seqs=2": "Better", "seqs=4": "Better"}
    assert over["status"]["scope"] == "WithinOneServer"
    assert over["status"]["best"][0]["variant"] == "seqs=4"


@pytest.mark.timeout(900)
def test_a_variant_whose_server_dies_is_a_row_with_its_reason(operator: Namespace, namespace: Namespace) -> None:
    wanted = sweep("lame", order="AsListed")
    # Long enough to be killed in the middle.
    wanted["spec"]["template"]["workloads"][0]["requests"] = 200
    namespace.apply(wanted)
    for run in one_by_one(namespace, "lame", count=3):
        if run["metadata"]["name"] == "lame-v2-r1":
            measuring = namespace.wait_for(
                RUN, "lame-v2-r1", is_measuring, timeout_seconds=RUN_SECONDS, what="measuring"
            )
            kill_container(namespace, selector=f"{children_selector(measuring)},benchrun.dev/role=server")
    over = finished(namespace, "lame")

    assert condition(over, "Complete")["status"] == "True", over["status"]
    assert condition(over, "Succeeded")["reason"] == "RunsFailed"
    assert list(throughputs(over)) == ["seqs=1", "seqs=4"]
    lame = over["status"]["variants"][1]
    assert (lame["name"], lame["reason"], lame["run"]) == ("seqs=2", "ServerRestarted", "lame-v2-r1")
    assert namespace.get(RUN, "lame-v2-r1")["status"].get("logTail")
