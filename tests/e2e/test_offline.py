"""Real vLLM without its API server: throughput and latency of the engine, and its own words when it
can't start."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.kubectl import Namespace, Object
from kit.runs import (
    VLLM_IMAGE,
    children_selector,
    condition,
    finished,
    merged,
    simulated_run,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "offline-tiny.yaml"
ENGINE = {
    "image": VLLM_IMAGE,
    "args": ["--max-model-len=4096", "--max-num-seqs=16", "--enforce-eager"],
}


def offline_run(name: str, **spec: Any) -> Object:
    """The example, shorter."""
    example: Object = yaml.safe_load(EXAMPLE.read_text())
    severities = simulated_run("any")["spec"]["validity"]
    return merged(
        example,
        {"metadata": {"name": name}, "spec": {"validity": severities, **spec}},
    )


def rows(run: Object) -> dict[str, Object]:
    return {row["loadPoint"]: row for row in run["status"]["results"]}


@pytest.mark.timeout(420)
def test_the_engine_is_measured_by_itself(namespace: Namespace) -> None:
    namespace.apply(offline_run("alone"))
    run = finished(namespace, "alone", timeout_seconds=400)
    status = run["status"]
    assert condition(run, "Complete")["status"] == "True", status
    found = rows(run)
    assert set(found) == {
        "throughput/rate=inf",
        "latency/batch=1",
        "latency/batch=8",
    }
    assert status["verdict"] in ("Valid", "Suspect"), status["findings"]

    whole, one, eight = (
        found[load_point]
        for load_point in (
            "throughput/rate=inf",
            "latency/batch=1",
            "latency/batch=8",
        )
    )
    assert whole["metrics"]["completed"] == 1200
    assert whole["metrics"]["total_output_tokens"] == 1200 * 16
    assert (
        whole["metrics"]["request_throughput"]
        > one["metrics"]["request_throughput"]
    )
    assert (
        eight["metrics"]["request_throughput"]
        > one["metrics"]["request_throughput"]
    )
    assert eight["metrics"]["mean_e2el_ms"] > one["metrics"]["mean_e2el_ms"]
    # All 600 are there at once and 16 places are: the rest waits, as a server's log would show.
    (figures,) = whole["roles"]
    assert figures["runningMax"] == 16
    assert figures["waitingMax"] > 100
    assert figures["kvCacheMaxPercent"] > 0
    assert figures["prefixHitPercent"] == 0
    assert whole["waiting"]["reason"] == "SequenceLimit"

    (server,) = status["servers"]
    assert server["version"]
    assert server["kvCacheTokens"] > 0
    assert "--max-num-seqs=16" in server["args"]
    assert server["secondsToReady"] > 0
    namespace.wait_gone(
        "pods",
        selector=f"{children_selector(run)},benchrun.dev/role=server",
        timeout_seconds=30,
    )


@pytest.mark.timeout(240)
def test_a_flag_that_the_engine_does_not_know_is_told_at_its_field(
    namespace: Namespace,
) -> None:
    wrong = offline_run(
        "typo", offline={**ENGINE, "args": ["--max-num-sequences=16"]}
    )
    began = time.monotonic()
    namespace.apply(wrong)
    run = finished(namespace, "typo", timeout_seconds=200)
    failed = condition(run, "Failed")
    assert failed["reason"] == "UsageError", run["status"]
    assert "unrecognized arguments: --max-num-sequences=16" in failed["message"]
    assert "spec.offline.args" in failed["message"]
    assert "spec.server" not in str(run["status"])
    assert time.monotonic() - began < 120
