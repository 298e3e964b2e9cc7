"""Real vLLM: prefill on one server and decode on another, held against two that do both; and what
is said when the cache is lost."""

import copy
from collections.abc import Iterator

import pytest
from kit.examples import benchrun, example, measured
from kit.kubectl import Namespace
from kit.runs import condition, finished

pytestmark = pytest.mark.timeout(2400)

FILE = "disaggregated-tiny.yaml"
NAME = "disaggregated-tiny"


@pytest.fixture(autouse=True)
def shared_folder(namespace: Namespace) -> Iterator[None]:
    """The example's volume under a name of the namespace's, which no other test's claim takes."""
    objects = example(FILE)
    volume = copy.deepcopy(objects["benchrun-kv"])
    claim = copy.deepcopy(objects["kv"])
    volume["metadata"]["name"] = volume["spec"]["storageClassName"] = namespace.name
    claim["spec"]["storageClassName"] = namespace.name
    namespace.apply(volume, claim)
    yield
    namespace.kubectl("delete", "persistentvolume", namespace.name, "--wait=false")


def test_a_split_server_is_held_against_two_whole_ones(
    namespace: Namespace,
) -> None:
    namespace.apply(example(FILE)[NAME])
    status = measured(namespace, "BenchmarkSweep", NAME, timeout_seconds=2000)
    said = benchrun(namespace, "report", NAME)
    results = said.table("variant", "load point", "runs")
    assert [row["variant"] for row in results] == ["aggregated", "split"]
    assert {row["verdict"] for row in results} <= {"Valid", "Suspect"}
    changes = said.table(
        "variant",
        "load point",
        "figure",
        "aggregated",
        "split",
        "change",
        "interval",
        "word",
    )
    assert [row["figure"] for row in changes][:2] == ["MeanTTFT", "MeanE2EL"]
    assert all(
        row["change"].endswith(" %") and " to " in row["interval"]
        for row in changes
    )
    (split,) = [row for row in status["results"] if row["variant"] == "split"]
    assert split["paired"]

    (run,) = [
        r
        for r in namespace.list("benchmarkruns")
        if len(r["status"]["servers"]) == 3
    ]
    by_role = {
        figures["role"]: figures for figures in run["status"]["results"][0]["roles"]
    }
    # 896 of 1000 tokens lie in whole blocks, and there are two stages of 60 prompts.
    assert by_role["decode"]["fetchedTokens"] >= 0.99 * 896 * 120
    assert 89 < by_role["decode"]["fetchedPercent"] < 90
    found = {finding["code"] for finding in run["status"]["findings"]}
    # Nor has an earlier run left anything in the folder.
    assert not found & {"KVRecomputed", "PrefixCacheContaminated"}


def test_a_connector_that_finds_nothing_is_found_out(namespace: Namespace) -> None:
    """Each role writes to a folder of its own: every answer is right, and every prompt was computed
    twice."""
    sweep = example(FILE)[NAME]
    spec = copy.deepcopy(sweep["spec"]["template"])
    split = copy.deepcopy(sweep["spec"]["matrix"]["variants"][1]["disaggregated"])
    apart = '{"kv_connector":"ExampleConnector","kv_role":"kv_both","kv_connector_extra_config":{"shared_storage_path":"/tmp/own"}}'
    split["decode"]["args"] = [f"--kv-transfer-config={apart}"]
    spec["server"] |= {"disaggregated": split}
    for aggregated in ("replicas", "resources"):
        del spec["server"][aggregated]
    namespace.apply(
        {
            "apiVersion": "benchrun.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "lost"},
            "spec": spec,
        },
    )
    run = finished(namespace, "lost", timeout_seconds=1500)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    (told,) = [
        finding
        for finding in run["status"]["findings"]
        if finding["code"] == "KVRecomputed"
    ]
    assert told["severity"] == "Invalid"
    assert run["status"]["verdict"] == "Invalid"
