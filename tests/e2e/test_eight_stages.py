"""Real vLLM: examples/quickstart.yaml, two workloads x two load points x two repeats against one server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.kubectl import RUN, Namespace, Object
from kit.runs import OF_A_BUSY_MACHINE, children_selector, condition, is_finished

EXAMPLE = Path(__file__).parents[2] / "examples/quickstart.yaml"


@pytest.fixture(scope="module")
def history() -> list[Object]:
    """Every state of the run that the watch showed."""
    return []


@pytest.mark.timeout(900)
def test_one_object_measures_eight_stages_and_frees_the_gpu(namespace: Namespace, history: list[Object]) -> None:
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    # Server and client share two cores here, at times with more: how late the client is, is not what this test is about.
    manifest["spec"]["validity"] = {"severities": OF_A_BUSY_MACHINE}
    namespace.apply(manifest)
    name = manifest["metadata"]["name"]

    def seen_finished(run: Object) -> bool:
        history.append(run)
        return is_finished(run)

    namespace.wait_for(RUN, name, seen_finished, timeout_seconds=800, what="finished")
    run = history[-1]
    status = run["status"]

    assert condition(run, "Complete")["status"] == "True", status
    assert condition(run, "Ready")["status"] == "True", status["findings"]
    assert status["estimate"]["stages"] == 8
    assert len(status["results"]) == 4
    for row in status["results"]:
        assert row["repeats"] == row["repeatsPlanned"] == 2
        assert row["verdict"] in ("Valid", "Suspect"), row
        assert row["metrics"]["failed"] == 0
        assert row["metrics"]["output_throughput"] > 0
        assert 0 < row["metrics"]["p50_ttft_ms"] <= row["metrics"]["p99_ttft_ms"] <= row["metrics"]["p99_e2el_ms"]
        assert row["roles"][0]["prefixHitPercent"] == 0

    server = status["servers"][0]
    assert server["version"].startswith("0.32")
    assert server["kvCacheTokens"] > 0
    assert server["imageDigest"]
    assert server["secondsToReady"] > 1

    stored = namespace.list("configmaps", selector=f"{children_selector(run)},benchrun.dev/role=stage")
    digests = {c["metadata"]["annotations"]["benchrun.dev/record-digest"] for c in stored}
    assert len(stored) == len(digests) == 8

    live = [
        (s["live"]["running"], s["live"]["kvCachePercent"]) for h in history if (s := h.get("status", {})).get("live")
    ]
    assert len(set(live)) > 1, "running and KV usage were never seen changing"
    namespace.wait_gone("pods", selector=f"{children_selector(run)},benchrun.dev/role=server", timeout_seconds=30)
    assert run["metadata"].get("finalizers") is None
