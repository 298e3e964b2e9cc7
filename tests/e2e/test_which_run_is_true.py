"""Real vLLM: the questions of people who were misled by their own numbers, each answered by the result itself. That the same
prompts come from the cache, test_experiments.py shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.kubectl import RUN, Namespace, Object
from kit.runs import condition, is_finished

EXAMPLE = Path(__file__).parents[2] / "examples/which-run-is-true.yaml"

pytestmark = pytest.mark.timeout(900)


def measured(namespace: Namespace, manifest: Object) -> Object:
    """The status once the run has ended as it should."""
    namespace.apply(manifest)
    run = namespace.wait_for(RUN, manifest["metadata"]["name"], is_finished, timeout_seconds=800, what="finished")
    assert condition(run, "Complete")["status"] == "True", run["status"]
    status: Object = run["status"]
    return status


def finding(status: Object, code: str) -> Object | None:
    return next((found for found in status["findings"] if found["code"] == code), None)


def row(status: Object, cell: str) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in status["results"] if row["cell"] == cell)
    return found


def test_isolated_prompts_agree_short_answers_and_the_sequence_limit_are_named(namespace: Namespace) -> None:
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["metadata"]["name"] = "questions"
    manifest["spec"]["server"]["args"] = ["--max-model-len=4096", "--max-num-seqs=2", "--enforce-eager"]
    manifest["spec"]["measurement"] = {"cachePolicy": "Isolate"}
    manifest["spec"]["workloads"] += [
        {
            "name": "ends-early",
            "dataset": {"random": {"inputTokens": 64, "outputTokens": 1024}},
            "load": {"concurrencies": [2]},
            "requests": 20,
            "ignoreEOS": False,
        },
        {
            "name": "crowd",
            "dataset": {"random": {"inputTokens": 64, "outputTokens": 128}},
            "load": {"concurrencies": [8]},
            "requests": 80,
        },
    ]
    status = measured(namespace, manifest)

    twice = row(status, "twice/rate=5")
    assert twice["roles"][0]["prefixHitPercent"] == 0
    assert "PrefixCacheContaminated" not in twice["findings"]
    # Repeats agree as far as two shared cores let them; a cache would halve the second's TTFT.
    assert twice["repeatCvPercent"]["output_throughput"] < 10, twice["repeatCvPercent"]
    assert twice["repeatCvPercent"]["mean_ttft_ms"] < 45, twice["repeatCvPercent"]

    short = finding(status, "OutputTooShort")
    assert short is not None, status["findings"]
    assert short["worstStage"].startswith("ends-early/")
    assert short["severity"] in ("Suspect", "Invalid")
    assert 0 < short["evidence"]["meanOutputTokens"] < 0.95 * short["evidence"]["askedTokens"]
    assert "OutputTooShort" not in row(status, "crowd/concurrency=8")["findings"]

    crowd = row(status, "crowd/concurrency=8")
    assert crowd["waiting"]["reason"] == "SequenceLimit", crowd["waiting"]
    assert crowd["bottleneck"]["limit"] == "SequenceLimit", crowd["bottleneck"]
    assert "2" in crowd["waiting"]["sentence"]
