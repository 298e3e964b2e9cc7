"""Prefill here and decode there, between simulated servers: the KV cache is handed over and
counted, or it is not, and it is said."""

from datetime import UTC, datetime
from typing import Any

import pytest
from kit.kubectl import RUN, Namespace, Object
from kit.processes import kill_container
from kit.runs import (
    OF_A_BUSY_MACHINE,
    children_selector,
    condition,
    finished,
    simulated_run,
)

pytestmark = pytest.mark.timeout(300)

PROMPT_TOKENS = 512
REQUESTS = 60
TIMING = [
    "--max-model-len=4096",
    "--no-enable-prefix-caching",
    "--sim-prefill-us-per-token=100",
    "--sim-tpot-ms=5",
]
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}}


def split(*, broken: bool = False) -> dict[str, Any]:
    """One server of each role; `broken`: what was prefilled does not arrive."""
    lost = ["--sim-kv-transfer-fails"] if broken else []
    return {
        "prefill": {"resources": SMALL},
        "decode": {"resources": SMALL, "args": lost},
        "proxy": {"resources": {"requests": {"cpu": "100m"}}},
        "kvTransfer": {"connector": "NixlConnector", "roles": "ProducerConsumer"},
    }


def workload(requests: int = REQUESTS) -> dict[str, Any]:
    return {
        "name": "chat",
        "dataset": {"random": {"inputTokens": PROMPT_TOKENS, "outputTokens": 16}},
        "load": {"concurrencies": [2]},
        "requests": requests,
    }


def disaggregated(
    name: str, *, broken: bool = False, requests: int = REQUESTS
) -> Object:
    return simulated_run(
        name,
        server={
            "args": TIMING,
            "resources": None,
            "disaggregated": split(broken=broken),
        },
        workloads=[workload(requests)],
        validity={
            "severities": [
                *OF_A_BUSY_MACHINE,
                {"code": "ProxySaturated", "severity": "Note"},
            ]
        },
    )


def figures(run: Object) -> dict[str, dict[str, Any]]:
    """Those of each role, of the only row."""
    (row,) = run["status"]["results"]
    return {each["role"]: each for each in row["roles"]}


def test_the_cache_is_handed_over_and_counted(namespace: Namespace) -> None:
    namespace.apply(disaggregated("split"), disaggregated("lost", broken=True))
    whole = finished(namespace, "split", timeout_seconds=200)
    assert condition(whole, "Complete")["status"] == "True", whole["status"]
    codes = {finding["code"] for finding in whole["status"]["findings"]}
    assert not codes & {
        "KVRecomputed",
        "ForeignTraffic",
        "TokenCountsDisagree",
        "ReplicasUnequal",
    }, codes
    assert whole["status"]["verdict"] in ("Valid", "Suspect")
    by_role = figures(whole)
    assert by_role["decode"]["fetchedTokens"] > 0.9 * PROMPT_TOKENS * REQUESTS
    assert by_role["decode"]["fetchedPercent"] > 90
    assert 0 < by_role["proxy"]["addedMeanMs"] < 100
    unknown = [
        f["evidence"]
        for f in whole["status"]["findings"]
        if f["code"] == "NotChecked"
    ]
    assert not {"ClientSaturated", "ClientServerGap"} & {
        code for evidence in unknown for code in evidence
    }
    assert [server["role"] for server in whole["status"]["servers"]] == [
        "prefill",
        "decode",
        "proxy",
    ]

    # Nothing fails where the cache is lost: only the counters tell.
    lost = finished(namespace, "lost", timeout_seconds=100)
    assert condition(lost, "Complete")["status"] == "True", lost["status"]
    assert lost["status"]["verdict"] == "Invalid"
    (told,) = [
        finding
        for finding in lost["status"]["findings"]
        if finding["code"] == "KVRecomputed"
    ]
    assert told["severity"] == "Invalid"
    assert told["evidence"]["recomputedPercent"] == 100
    assert figures(lost)["decode"]["fetchedPercent"] == 0
    namespace.wait_gone(
        "deployments", selector="benchrun.dev/run", timeout_seconds=60
    )


def test_a_proxy_that_holds_requests_back_and_a_role_that_waits_for_the_other_are_found(
    namespace: Namespace,
) -> None:
    narrow = disaggregated("narrow")
    narrow["spec"]["server"]["disaggregated"]["proxy"]["args"] = [
        "--max-in-flight=1"
    ]
    uneven = disaggregated("uneven", requests=48)
    uneven["spec"]["server"]["disaggregated"]["prefill"]["args"] = [
        "--max-num-seqs=1",
        "--sim-prefill-us-per-token=1000",
    ]
    uneven["spec"]["workloads"][0]["load"] = {"concurrencies": [4]}
    namespace.apply(narrow, uneven)

    found = {
        name: {
            f["code"]: f["evidence"]
            for f in finished(namespace, name, timeout_seconds=200)["status"][
                "findings"
            ]
        }
        for name in ("narrow", "uneven")
    }
    evidence = found["narrow"]["ProxySaturated"]
    assert evidence["queuedMeanMs"] > evidence["suspectMs"]
    idle = found["uneven"]["RoleIdle"]
    assert (idle["idleRole"], idle["queueRole"]) == ("decode", "prefill")


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_role_that_dies_mid_stage_voids_it_within_ten_seconds(
    namespace: Namespace, role: str
) -> None:
    name = f"dies-{role}"
    namespace.apply(disaggregated(name, requests=5000))
    namespace.wait_for(
        RUN,
        name,
        lambda run: "startTime" in run.get("status", {}),
        timeout_seconds=150,
        what="measuring",
    )
    killed_at = datetime.now(UTC)
    kill_container(namespace, selector=f"benchrun.dev/role={role}")
    run = finished(namespace, name, timeout_seconds=60)
    took = (
        datetime.fromisoformat(run["status"]["completionTime"]) - killed_at
    ).total_seconds()
    assert condition(run, "Failed")["reason"] == "ServerRestarted", run["status"][
        "message"
    ]
    assert f"of the role {role}" in run["status"]["message"]
    assert took < 10
    # Nothing of the stage is kept, and no row tells of it.
    assert run["status"].get("results", []) == []
    assert (
        namespace.list(
            "configmaps",
            selector=f"{children_selector(run)},benchrun.dev/role=stage",
        )
        == []
    )
