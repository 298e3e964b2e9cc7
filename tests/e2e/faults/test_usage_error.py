"""Real vLLM: a typo in the arguments is told within a minute, in vLLM's own words."""

import time

import pytest
from kit.kubectl import Namespace
from kit.real_faults import KINDS, check_real
from kit.runs import (
    VLLM_IMAGE,
    children_selector,
    condition,
    finished,
    simulated_run,
)
from kit.watching import Watch


@pytest.mark.timeout(180)
def test_an_unknown_flag_ends_the_run_with_usage_error_within_a_minute(
    namespace: Namespace,
) -> None:
    server = {
        "image": VLLM_IMAGE,
        "args": ["--max-model-len=4096", "--max-num-sequences=16"],
    }
    with Watch(namespace, *KINDS) as watch:
        began = time.monotonic()
        namespace.apply(simulated_run("typo", server=server))
        run = finished(namespace, "typo", timeout_seconds=150)
        took = time.monotonic() - began
        namespace.wait_gone(
            "pods",
            selector=f"{children_selector(run)},benchrun.dev/role=server",
            timeout_seconds=30,
        )
        check_real("unknown-flag", run, watch)
    failed = condition(run, "Failed")
    assert failed["reason"] == "UsageError"
    assert "unrecognized arguments: --max-num-sequences=16" in failed["message"]
    assert "Traceback" not in str(run["status"])
    assert took < 60
