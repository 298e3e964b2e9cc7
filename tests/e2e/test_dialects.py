"""A run of each engine whose real server is not at hand: simulated, but started as the engine is."""

from typing import Any

import pytest
from benchrun_client.engines import EngineName
from kit.kubectl import Namespace
from kit.runs import condition, finished, simulated_run

PLACES, USERS, REQUESTS, ANSWER = 2, 4, 200, 16
ARGS: dict[EngineName, list[str]] = {
    "SGLang": [f"--max-running-requests={PLACES}", "--context-length=2048"],
    "TensorRTLLM": [f"--max_batch_size={PLACES}", "--max_seq_len=2048"],
}
REPORTED: dict[EngineName, tuple[str, str]] = {
    "SGLang": ("effective_max_running_requests_per_dp", str(PLACES)),
    "TensorRTLLM": ("max_model_len", "2048"),
}

pytestmark = pytest.mark.timeout(300)


def run_of(name: EngineName) -> dict[str, Any]:
    body = simulated_run(name.lower())
    body["spec"]["server"] |= {
        "engine": name,
        # In place of the engine's own program.
        "command": ["python", "-m", "benchrun_simulator", "serve"],
        "args": [
            *ARGS[name],
            f"--sim-engine={name}",
            "--sim-tpot-ms=20",
            "--sim-kv-tokens=4096",
        ],
    }
    body["spec"]["workloads"][0] |= {
        "dataset": {"random": {"inputTokens": 64, "outputTokens": ANSWER}},
        "load": {"concurrencies": [USERS]},
        "requests": REQUESTS,
    }
    return body


@pytest.mark.parametrize("name", ARGS)
def test_a_run_of_the_engine_is_started_scraped_and_judged(
    name: EngineName, namespace: Namespace
) -> None:
    namespace.apply(run_of(name))
    run = finished(namespace, name.lower(), timeout_seconds=250)
    status = run["status"]
    assert condition(run, "Complete")["status"] == "True", status
    (row,) = status["results"]
    assert row["metrics"]["completed"] == REQUESTS
    assert row["metrics"]["total_output_tokens"] == REQUESTS * ANSWER
    (role,) = row["roles"]
    assert role["runningMax"] == PLACES
    assert 1 <= role["waitingMax"] <= USERS - PLACES
    assert 0 < role["kvCacheMaxPercent"] < 50
    (server,) = status["servers"]
    assert (server["engine"], server["version"]) == (name, "0.32.0")
    key, value = REPORTED[name]
    assert server["reported"][key] == value
    assert server["kvCacheTokens"] == 4096
    codes = {each["code"] for each in status["findings"]}
    assert not codes & {"StreamTruncated", "TokenCountsDisagree", "WrongModel"}
