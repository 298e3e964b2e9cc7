"""A server that can't start is told apart and told fast: its own reason, its own words, what to
change.

Most of what such runs do is wait, so they do it together.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from e2e.conftest import in_a_namespace
from kit.kubectl import Namespace
from kit.real_faults import KINDS, check_real
from kit.runs import (
    children_selector,
    condition,
    finished,
    held_seconds,
    simulated_run,
)
from kit.watching import Watch

FAILURES = {
    "oom-gpu": "OutOfGPUMemory",
    "kv-cache-too-small": "KVCacheTooSmall",
    "gated-model": "ModelGated",
    "model-not-found": "ModelNotFound",
    "crash": "CrashLoop",
}
UNABLE: dict[str, dict[str, Any]] = {
    **{fault: {"args": (f"--sim-fail-start={fault}",)} for fault in FAILURES},
    "image": {"server": {"image": "registry.invalid/no/such:image"}},
    "greedy": {
        "server": {"resources": {"limits": {"nvidia.com/gpu": 64}}},
        "pendingDeadlineSeconds": 15,
    },
    "nowhere": {"server": {"pod": {"nodeSelector": {"gpu": "no-such-card"}}}},
}
FOUR_SECONDS = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 64, "outputTokens": 20}},
    "load": {"concurrencies": [1]},
    "requests": 4,
}
"""A stage of four requests that take a second each, at 50 ms a token. Twenty of them are 80
seconds."""
AT_A_RATE = FOUR_SECONDS | {"load": {"requestRates": ["1"]}}
"""The same four seconds, also where no request is answered: users whose connections are refused end
all stages before anybody hears of the server's end."""
LATE: dict[str, dict[str, Any]] = {
    "slow": {"args": ("--sim-load-seconds=600",), "startupDeadlineSeconds": 60},
    "late": {
        "args": ("--sim-tpot-ms=50",),
        "workloads": [FOUR_SECONDS],
        "repeats": 20,
        "runDeadlineSeconds": 45,
    },
    # Its load goes on for long enough to be cut short: what only fails at once is measured.
    "first-request": {
        "args": ("--sim-die-after-requests=1",),
        "workloads": [AT_A_RATE],
        "repeats": 20,
    },
    "mortal": {"args": ("--sim-die-after-requests=13",), "repeats": 4},
}
TOLD_WITHIN_SECONDS = 90
ENOUGH_RESTARTS = 2


Watched = tuple[Namespace, Watch]


@contextmanager
def started(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[Watched]:
    """A namespace in which each of these runs was started, at the same instant, and what happens
    there from before that on."""
    with in_a_namespace() as namespace, Watch(namespace, *KINDS) as watch:
        namespace.apply(
            *(simulated_run(name, **spec) for name, spec in runs.items())
        )
        yield namespace, watch


@pytest.fixture(scope="module")
def unable(operator: Namespace) -> Iterator[Watched]:
    with started(UNABLE) as watched:
        yield watched


@pytest.fixture(scope="module")
def unable_later(operator: Namespace) -> Iterator[Watched]:
    """Those that come further. What they measure should not meet the others' start."""
    with started(LATE) as watched:
        yield watched


@pytest.fixture
def together(unable: Watched) -> Namespace:
    return unable[0]


@pytest.fixture
def watch(unable: Watched) -> Watch:
    return unable[1]


@pytest.fixture
def later(unable_later: Watched) -> Namespace:
    return unable_later[0]


@pytest.fixture
def watch_later(unable_later: Watched) -> Watch:
    return unable_later[1]


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("fault", "reason"), FAILURES.items())
def test_a_server_that_cannot_start_ends_the_run_with_its_own_reason(
    together: Namespace, watch: Watch, fault: str, reason: str
) -> None:
    run = finished(together, fault, timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == reason, run["status"]["message"]
    assert condition(run, "Ready")["status"] == "False"
    assert condition(run, "Stalled")["status"] == "True"
    assert "Traceback" not in run["status"]["message"]
    assert held_seconds(run) < TOLD_WITHIN_SECONDS
    together.wait_gone(
        "pods",
        selector=f"{children_selector(run)},benchrun.dev/role=server",
        timeout_seconds=30,
    )
    check_real(
        fault, run, watch, restarts=ENOUGH_RESTARTS if reason == "CrashLoop" else 0
    )


@pytest.mark.timeout(200)
def test_an_image_that_cannot_be_pulled_ends_the_run(together: Namespace) -> None:
    run = finished(together, "image", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "ImagePull"
    assert "registry.invalid/no/such:image" in run["status"]["message"]


@pytest.mark.timeout(200)
def test_no_gpu_to_be_had_waits_with_the_reason_until_its_deadline(
    together: Namespace,
) -> None:
    run = finished(together, "greedy", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "PendingDeadlineExceeded"
    assert "nvidia.com/gpu" in run["status"]["message"]


@pytest.mark.timeout(200)
def test_a_node_selector_nothing_matches_ends_the_run_after_its_grace(
    together: Namespace,
) -> None:
    run = finished(together, "nowhere", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "Unschedulable"


@pytest.mark.timeout(200)
def test_a_server_that_loads_too_long_meets_its_startup_deadline(
    later: Namespace,
) -> None:
    run = finished(later, "slow", timeout_seconds=180)
    assert condition(run, "Failed")["reason"] == "StartupDeadlineExceeded"
    assert (
        "the server was not healthy within startupDeadlineSeconds (60 s)"
        in run["status"]["message"]
    )


@pytest.mark.timeout(200)
def test_a_run_that_measures_too_long_meets_its_deadline_and_keeps_what_it_measured(
    later: Namespace,
) -> None:
    run = finished(later, "late", timeout_seconds=180)
    assert condition(run, "Failed")["reason"] == "RunDeadlineExceeded"
    assert run["status"]["results"][0]["repeats"] >= 1
    assert run["status"]["verdict"] == "Invalid"


@pytest.mark.timeout(300)
def test_a_server_that_dies_mid_stage_voids_the_run(later: Namespace) -> None:
    run = finished(later, "mortal", timeout_seconds=200)
    assert condition(run, "Failed")["reason"] == "ServerRestarted", run["status"][
        "message"
    ]
    assert run["status"]["verdict"] == "Invalid"
    assert run["status"]["logTail"]


@pytest.mark.timeout(300)
def test_a_server_that_dies_on_its_first_request_ends_the_run(
    later: Namespace, watch_later: Watch
) -> None:
    run = finished(later, "first-request", timeout_seconds=200)
    # What was sent while it was away has failed.
    assert {row["verdict"] for row in run["status"].get("results", [])} <= {
        "Invalid"
    }
    check_real("first-request", run, watch_later)
