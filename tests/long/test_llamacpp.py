"""Real llama.cpp as a run's own server: started, measured by users, scraped, judged, reported."""

from typing import Any

import pytest
from kit.examples import benchrun, finding, measured, rows
from kit.kubectl import RUN, Namespace
from kit.runs import TINY_MODEL, condition, is_finished, simulated_run

SLOTS, USERS = 2, 4
PROMPT, ANSWER, REQUESTS = 64, 24, 800

pytestmark = pytest.mark.timeout(1800)


def run_of(name: str, image: str, **spec: Any) -> dict[str, Any]:
    slot_tokens = ("--ctx-size", "4096", "--parallel", str(SLOTS))
    body = simulated_run(name, **spec)
    body["spec"]["server"] |= {
        "engine": "LlamaCpp",
        "image": image,
        "args": [*slot_tokens, "--threads", "1"],
    }
    body["spec"]["model"] = {
        "name": "tiny",
        "tokenizer": TINY_MODEL,
        "source": {"path": {"path": "/opt/models/tiny.gguf"}},
    }
    body["spec"]["workloads"] = [
        {
            "name": "users",
            "dataset": {"random": {"inputTokens": PROMPT, "outputTokens": ANSWER}},
            "load": {"concurrencies": [USERS]},
            "requests": REQUESTS,
        }
    ]
    return body


def test_a_real_llamacpp_is_started_measured_and_judged(
    namespace: Namespace, llamacpp_image: str
) -> None:
    namespace.apply(run_of("llamacpp", llamacpp_image))
    status = measured(namespace, "BenchmarkRun", "llamacpp", timeout_seconds=900)
    (row,) = rows(status).values()
    metrics = row["metrics"]
    assert (metrics["completed"], metrics["failed"]) == (REQUESTS, 0)
    # By the server's own counts, whose tokenizer is the client's.
    assert metrics["total_output_tokens"] == REQUESTS * ANSWER
    codes = {each["code"] for each in status["findings"]}
    assert not codes & {"StreamTruncated", "TokenCountsDisagree", "WrongModel"}

    (role,) = row["roles"]
    # Samples a second apart see the most that runs; how many wait differs from instant to instant.
    assert role["runningMax"] == SLOTS
    assert 1 <= role["waitingMax"] <= USERS - SLOTS
    lacking = {"kvCacheMaxPercent", "kvCacheMeanPercent", "preemptions"}
    assert not lacking & role.keys()
    # Prompts are unlike each other, but for what random words share.
    assert 0 <= role["prefixHitPercent"] < 10

    (server,) = status["servers"]
    assert (server["engine"], server["version"]) == ("LlamaCpp", "b1-7e4c0a9")
    assert server["reported"]["total_slots"] == str(SLOTS)
    assert server["reported"]["n_ctx"] == str(4096 // SLOTS)
    assert "kvCacheTokens" not in server

    unchecked = finding(status, "NotChecked")["evidence"]
    assert "ForeignTraffic" in unchecked
    said = benchrun(namespace, "report", "llamacpp", "--wide")
    settings = {
        each["setting"]: each["value"]
        for each in said.table("setting", "value", "side", "field")
    }
    assert (settings["longest sequence"], settings["most running requests"]) == (
        str(4096 // SLOTS),
        str(SLOTS),
    )


def test_a_flag_that_llama_server_does_not_know_ends_the_run(
    namespace: Namespace, llamacpp_image: str
) -> None:
    body = run_of("llamacpp-flag", llamacpp_image)
    body["spec"]["server"]["args"] += ["--no-such-flag"]
    namespace.apply(body)
    run = namespace.wait_for(
        RUN, "llamacpp-flag", is_finished, timeout_seconds=300, what="failed"
    )
    failed = condition(run, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "UsageError")
    assert "invalid argument: --no-such-flag" in failed["message"]
