"""Two pods of the client send one load: one record a stage of all requests; and with either pod the
stage is lost."""

import base64
import time

import pytest
from benchrun.plan import RECORD_KEY
from benchrun_client.contract import StageRecord, open_record
from kit.kubectl import RUN, Namespace, Object
from kit.runs import children_selector, condition, finished, phase, simulated_run

MAX_SKEW_US = 20_000
LOST_SECONDS = 20.0
"""Ten for the shard to be missed, and as many for a pod to be deleted."""


def sharded_run(name: str, *loads: Object) -> Object:
    workloads = [
        {
            "name": f"w{number}",
            "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
            **load,
        }
        for number, load in enumerate(loads)
    ]
    client = {
        "parallelism": 2,
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
    }
    return simulated_run(
        name,
        args=("--sim-ttft-ms=40", "--sim-tpot-ms=10"),
        workloads=workloads,
        client=client,
    )


def records(namespace: Namespace) -> list[StageRecord]:
    maps = [
        c
        for c in namespace.list("configmaps")
        if c["metadata"].get("labels", {}).get("benchrun.dev/role") == "stage"
    ]
    found = [
        open_record(base64.b64decode(c["binaryData"][RECORD_KEY])) for c in maps
    ]
    return sorted(found, key=lambda record: record.sequence)


def client_pods(namespace: Namespace, run: Object) -> dict[str, str]:
    """Names by place."""
    pods = namespace.list(
        "pods", selector=f"{children_selector(run)},benchrun.dev/role=client"
    )
    return {
        p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: p[
            "metadata"
        ]["name"]
        for p in pods
    }


@pytest.mark.timeout(300)
def test_two_pods_measure_as_one(namespace: Namespace) -> None:
    closed = {"load": {"concurrencies": [6]}, "requests": 121}
    at_a_rate = {"load": {"requestRates": ["20"]}, "requests": 80}
    namespace.apply(sharded_run("two", closed, at_a_rate))
    run = finished(namespace, "two", timeout_seconds=240)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert set(client_pods(namespace, run)) == {"0", "1"}
    measured = records(namespace)
    assert [len(record.requests.ok) for record in measured] == [121, 80]
    for record in measured:
        assert all(record.requests.ok)
        assert record.client.processes == 2
        assert record.shards is not None
        assert (
            record.shards.start_skew_us + record.shards.clock_error_us < MAX_SKEW_US
        )
        (edge,) = record.servers
        assert edge.before is not None
        assert edge.after is not None
        counted = (
            edge.after["request_success_total"]
            - edge.before["request_success_total"]
        )
        assert counted == len(record.requests.ok)


@pytest.mark.timeout(300)
def test_a_pod_that_is_lost_takes_its_stage_with_it(namespace: Namespace) -> None:
    short = {"load": {"concurrencies": [4]}, "requests": 20}
    long = {"load": {"concurrencies": [4]}, "requests": 5000}
    run = sharded_run("lost", short, long)
    run["spec"]["measurement"]["order"] = "AsListed"
    namespace.apply(run)
    started = namespace.wait_for(
        RUN,
        "lost",
        lambda r: phase(r) == "Running" and "w1/" in r["status"].get("message", ""),
        timeout_seconds=200,
        what="in its second stage",
    )
    namespace.delete("pod", client_pods(namespace, started)["1"])
    began = time.monotonic()
    ended = finished(namespace, "lost", timeout_seconds=60)
    assert time.monotonic() - began < LOST_SECONDS
    assert phase(ended) == "Failed"
    failed = condition(ended, "Failed")
    assert failed["reason"] == "ShardLost"
    assert "shard 1 of 2" in failed["message"]
    assert "w1/concurrency=4/r1" in failed["message"]
    assert [record.stage_id for record in records(namespace)] == [
        "w0/concurrency=4/r1"
    ]
