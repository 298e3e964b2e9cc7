"""The GPU is let go whatever else fails: each test takes something away that the operator would
like to have."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kit import definitions, pod_statuses
from kit.denying_webhook import denying
from kit.kubectl import Object, command
from kit.lost_node import bind, lost_node
from kit.played import PlayedCluster, PlayedRun
from kit.runs import condition

LET_GO_SECONDS = 20.0
"""From the moment that an operator who looks can know that the run ends."""
TOLD_SECONDS = 10.0
DEADLINE_SECONDS = 15
RUN_DEADLINE_SECONDS = 10
FOREVER = 600.0
WORDS = ("webhook", "policy server")
"""What the API server says of a webhook that is dead, and of one that denied."""


# ---- a log that can't be read
# ----------------------------------------------------------------------------------------


REFUSED_ITS_FLAGS = "vllm: error: unrecognized arguments: --no-such-flag"


@pytest.mark.timeout(90)
async def test_a_server_whose_log_cannot_be_read_is_let_go(
    played: PlayedCluster,
) -> None:
    unreadable, control = [
        await played.apply(name) for name in ("unreadable", "control")
    ]
    async with lost_node(played.api) as node:
        for run in (unreadable, control):
            await played.client_starts(run)
        # The control's pod has no node: the API server itself says that there is no log.
        await bind(
            played.api,
            played.namespace,
            await played.gets(unreadable, "Pod", "server"),
            node=node,
        )
        for run in (control, unreadable):
            status = pod_statuses.looping(
                "server", code=2, message=REFUSED_ITS_FLAGS
            )
            await played.write_pod(run, "server", status)
        for run in (control, unreadable):
            await played.released(run, seconds=LET_GO_SECONDS)
            status = await played.finished(run, seconds=LET_GO_SECONDS)
            assert condition({"status": status}, "Failed")["reason"] in (
                "UsageError",
                "CrashLoop",
            ), status
        # No kubelet will ever say that the pod has ended.
        pods = f"--namespace={played.namespace}"
        await asyncio.to_thread(
            command,
            "kubectl",
            pods,
            "delete",
            "pods",
            "--all",
            "--force",
            "--grace-period=0",
        )


# ---- a client that can't be understood any more
# ----------------------------------------------------------------------


async def _measuring(
    played: PlayedCluster, *runs: PlayedRun
) -> list[asyncio.Task[None]]:
    """Stages that don't end, of each of the runs, once the operator knows of it."""
    for run in runs:
        await played.both_start(run)
    ends_at = time.monotonic() + FOREVER
    tasks = [
        asyncio.create_task(run.client.measure(run.server, ends=[ends_at, ends_at]))
        for run in runs
    ]
    for run in runs:
        await played.reaches(run, "Running")
    return tasks


async def _left(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.timeout(90)
async def test_deadlines_hold_for_a_client_that_cannot_be_understood_after_a_restart(
    played: PlayedCluster,
) -> None:
    limit = {"runDeadlineSeconds": RUN_DEADLINE_SECONDS}
    runs = planless, control = [
        await played.apply(name, **limit) for name in ("planless", "control")
    ]
    tasks = await _measuring(played, *runs)
    late_at = time.monotonic() + RUN_DEADLINE_SECONDS
    await played.operator.kill()
    await played.delete(
        "ConfigMap",
        played.children(planless, "ConfigMap", "plan")[0]["metadata"]["name"],
    )
    await played.operator.start()
    for run in (control, planless):
        await played.released(
            run, seconds=max(0.0, late_at - time.monotonic()) + LET_GO_SECONDS
        )
        status = await played.finished(run, seconds=LET_GO_SECONDS)
        assert condition({"status": status}, "Failed")["status"] == "True", status
    await _left(tasks)


# ---- a status that can't be read
# -------------------------------------------------------------------------------------


@pytest.fixture
def definition_of_tomorrow(definition: str) -> Iterator[None]:
    """The definition of a newer release."""
    with definitions.newer():
        yield


OF_TOMORROW: dict[str, Object] = {
    "control": {},
    "phase": {"phase": "Hibernating"},
    "verdict": {"verdict": "Splendid"},
    "field": {"hibernation": {"depth": 3}},
}


@pytest.mark.timeout(120)
async def test_a_status_of_a_newer_operator_does_not_keep_a_run_alive(
    definition_of_tomorrow: None, played: PlayedCluster
) -> None:
    runs = [await played.apply(name) for name in OF_TOMORROW]
    tasks = await _measuring(played, *runs)
    await played.operator.kill()
    for run in runs:
        await played.status_holds(run, OF_TOMORROW[run.name])
    await played.operator.start()
    for run in runs:
        await played.patch("BenchmarkRun", run.name, {"spec": {"cancel": True}})
    for run in runs:
        await played.released(run, seconds=LET_GO_SECONDS)
        status = await played.finished(run, seconds=LET_GO_SECONDS)
        assert condition({"status": status}, "Failed")["reason"] == "Cancelled", (
            status
        )
    kept = next(run for run in runs if run.name == "field")
    assert played.status(kept)["hibernation"] == OF_TOMORROW["field"]["hibernation"]
    await _left(tasks)


# ---- an apply that fails
# ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(90)
async def test_a_webhook_that_denies_or_is_dead_is_told_and_deadlines_hold(
    played: PlayedCluster, tmp_path: Path
) -> None:
    limits = {
        "startupDeadlineSeconds": DEADLINE_SECONDS,
        "pendingDeadlineSeconds": DEADLINE_SECONDS,
    }
    denied = {"denied": "jobs", "serverless": "deployments"}
    dead = {"dead": "jobs"}
    async with denying(
        played.api, played.namespace, tmp_path, denied=denied, dead=dead
    ) as webhook:
        control = await played.apply("control")
        runs = [
            await played.apply(name, **limits)
            for name in ("dead", "serverless", "denied")
        ]
        for run in (control, runs[1]):
            await played.client_starts(run)
        await played.gets(control, "Deployment", "server", seconds=TOLD_SECONDS)
        for run in runs:
            told = partial(_tells, played, run)
            await played.until(
                told,
                seconds=TOLD_SECONDS,
                what=f"{run.name} says what it waits for",
            )
        for run in runs:
            status = await played.finished(
                run, seconds=DEADLINE_SECONDS + LET_GO_SECONDS
            )
            failed = condition({"status": status}, "Failed")
            assert failed["reason"] in (
                "StartupDeadlineExceeded",
                "PendingDeadlineExceeded",
            ), (
                run.name,
                failed,
            )
            assert any(word in failed["message"] for word in WORDS), (
                run.name,
                failed,
            )
        assert webhook.denied > 0
    assert played.has_server(control)


def _tells(played: PlayedCluster, run: PlayedRun) -> bool:
    message = played.status(run).get("message", "")
    return any(word in message for word in WORDS)
