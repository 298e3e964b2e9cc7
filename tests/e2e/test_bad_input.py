"""Input that can't work ends the run with a sentence that says what to change, before a GPU is taken where that can be known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kit.kubectl import Namespace, Object
from kit.runs import children_selector, condition, finished, simulated_run


def _share_gpt(file: dict[str, Any], *, requests: int = 4) -> list[dict[str, Any]]:
    dataset = {"shareGPT": {"file": file, "outputTokens": 8}}
    return [{"name": "chat", "dataset": dataset, "load": {"concurrencies": [1]}, "requests": requests}]


def _took_no_gpu(namespace: Namespace, run: Object) -> None:
    assert run["status"].get("scheduledTime") is None
    assert namespace.list("deployments", selector=children_selector(run)) == []


@pytest.mark.timeout(200)
def test_a_missing_config_map_is_named_before_a_gpu_is_taken(namespace: Namespace) -> None:
    namespace.apply(
        simulated_run("no-map", workloads=_share_gpt({"configMap": {"name": "absent", "key": "chat.json"}}))
    )
    run = finished(namespace, "no-map", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "DatasetNotFound"
    assert "absent/chat.json" in run["status"]["message"]
    _took_no_gpu(namespace, run)


@pytest.mark.timeout(200)
def test_too_few_rows_are_counted_before_a_gpu_is_taken(namespace: Namespace) -> None:
    row = {
        "conversations": [
            {"from": "human", "value": "hello there, how are you"},
            {"from": "gpt", "value": "fine, thanks"},
        ]
    }
    namespace.apply({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "few"}, "data": {"chat.json": json.dumps([row] * 3)},
    })  # fmt: skip
    workloads = _share_gpt({"configMap": {"name": "few", "key": "chat.json"}}, requests=10)
    namespace.apply(simulated_run("few-rows", workloads=workloads))
    run = finished(namespace, "few-rows", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "DatasetTooSmall"
    assert "3" in run["status"]["message"]
    assert "10" in run["status"]["message"]
    _took_no_gpu(namespace, run)


@pytest.mark.timeout(200)
def test_a_prompt_longer_than_the_model_takes_is_refused_with_both_lengths(namespace: Namespace) -> None:
    workload = {
        "name": "long",
        "dataset": {"random": {"inputTokens": 9000, "outputTokens": 8}},
        "load": {"concurrencies": [1]},
        "requests": 2,
    }
    namespace.apply(simulated_run("too-long", workloads=[workload]))
    run = finished(namespace, "too-long", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "PromptTooLong"
    assert "9008" in run["status"]["message"]
    assert "8192" in run["status"]["message"]
    _took_no_gpu(namespace, run)


@pytest.mark.timeout(200)
def test_a_missing_secret_waits_with_the_reason_until_the_deadline(namespace: Namespace) -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "token"}}}]
    namespace.apply(simulated_run("no-secret", server={"env": env}, startupDeadlineSeconds=60))
    run = finished(namespace, "no-secret", timeout_seconds=180)
    assert condition(run, "Failed")["reason"] == "StartupDeadlineExceeded"
    assert 'secret "absent" not found' in run["status"]["message"]
