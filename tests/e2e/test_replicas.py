"""Several servers of one kind: requests take turns over them, and the result tells of each
share."""

import base64

import pytest
from benchrun.plan import RECORD_KEY
from benchrun_client.contract import open_record
from kit.kubectl import Namespace
from kit.runs import condition, finished, simulated_run


@pytest.mark.timeout(300)
def test_three_servers_share_the_load_evenly(namespace: Namespace) -> None:
    server = {
        "replicas": 3,
        "args": ["--max-model-len=4096", "--sim-ttft-ms=40", "--sim-tpot-ms=10"],
        "resources": {"limits": None},
    }
    workload = {
        "name": "users",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [6]},
        "requests": 300,
    }
    # Two processes send, each to all servers.
    namespace.apply(
        simulated_run(
            "three", server=server, workloads=[workload], client={"parallelism": 2}
        )
    )
    run = finished(namespace, "three", timeout_seconds=240)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert run["status"]["verdict"] in ("Valid", "Suspect"), run["status"][
        "findings"
    ]
    codes = {finding["code"] for finding in run["status"]["findings"]}
    assert not codes & {"LoadUneven", "ReplicasUnequal", "ForeignTraffic"}
    (told,) = run["status"]["servers"]
    assert told["replicas"] == 3

    (stage,) = [
        c
        for c in namespace.list("configmaps")
        if c["metadata"].get("labels", {}).get("benchrun.dev/role") == "stage"
    ]
    record = open_record(base64.b64decode(stage["binaryData"][RECORD_KEY]))
    assert len(record.servers) == 3
    shares = [
        edge.after["request_success_total"] - edge.before["request_success_total"]
        for edge in record.servers
        if edge.after and edge.before
    ]
    assert sum(shares) == 300
    assert max(shares) - min(shares) <= 0.02 * 100
