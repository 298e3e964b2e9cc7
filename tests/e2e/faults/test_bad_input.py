"""Input that can't work ends the run with a sentence that says what to change, before a GPU is
taken where that can be known. What is wrong with data that are not in the cluster,
test_dataset_sources.py shows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.conftest import in_a_namespace
from kit.kubectl import Namespace, Object
from kit.runs import children_selector, condition, finished, simulated_run

pytestmark = pytest.mark.timeout(200)

ROW = {
    "conversations": [
        {"from": "human", "value": "hello there, how are you"},
        {"from": "gpt", "value": "fine, thanks"},
    ]
}
FEW = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "few"},
    "data": {"chat.json": json.dumps([ROW] * 3)},
}


def workload(dataset: dict[str, Any], *, requests: int) -> list[dict[str, Any]]:
    return [
        {
            "name": "chat",
            "dataset": dataset,
            "load": {"concurrencies": [1]},
            "requests": requests,
        }
    ]


def share_gpt(config_map: str) -> dict[str, Any]:
    return {
        "shareGPT": {
            "file": {"configMap": {"name": config_map, "key": "chat.json"}},
            "outputTokens": 8,
        }
    }


TOKEN = {
    "name": "TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "absent", "key": "token"}},
}
BAD: dict[str, dict[str, Any]] = {
    "no-map": {"workloads": workload(share_gpt("absent"), requests=4)},
    "few-rows": {"workloads": workload(share_gpt("few"), requests=10)},
    "too-long": {
        "workloads": workload(
            {"random": {"inputTokens": 9000, "outputTokens": 8}}, requests=2
        )
    },
    "no-secret": {"server": {"env": [TOKEN]}, "startupDeadlineSeconds": 60},
}


@pytest.fixture(scope="module")
def together(operator: Namespace) -> Iterator[Namespace]:
    """A namespace in which each of these runs was started, at the same instant."""
    with in_a_namespace() as namespace:
        namespace.apply(
            FEW, *(simulated_run(name, **spec) for name, spec in BAD.items())
        )
        yield namespace


def took_no_gpu(namespace: Namespace, run: Object) -> None:
    assert run["status"].get("scheduledTime") is None
    assert namespace.list("deployments", selector=children_selector(run)) == []


def test_a_missing_config_map_is_named_before_a_gpu_is_taken(
    together: Namespace,
) -> None:
    run = finished(together, "no-map", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "DatasetNotFound"
    assert "absent/chat.json" in run["status"]["message"]
    took_no_gpu(together, run)


def test_too_few_rows_are_counted_before_a_gpu_is_taken(
    together: Namespace,
) -> None:
    run = finished(together, "few-rows", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "DatasetTooSmall"
    assert "3" in run["status"]["message"]
    assert "10" in run["status"]["message"]
    took_no_gpu(together, run)


def test_a_prompt_longer_than_the_model_takes_is_refused_with_both_lengths(
    together: Namespace,
) -> None:
    run = finished(together, "too-long", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "PromptTooLong"
    assert "9008" in run["status"]["message"]
    assert "8192" in run["status"]["message"]
    took_no_gpu(together, run)


def test_a_missing_secret_waits_with_the_reason_until_the_deadline(
    together: Namespace,
) -> None:
    run = finished(together, "no-secret", timeout_seconds=180)
    assert condition(run, "Failed")["reason"] == "StartupDeadlineExceeded"
    assert 'secret "absent" not found' in run["status"]["message"]
