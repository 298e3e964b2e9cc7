"""Everything that a real API server says no to: told soon, waited for as long as it may be mended,
and no longer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kit.denying_webhook import denying
from kit.faults import Fault, of
from kit.played import played_cluster
from kit.refusing_cluster import MOST_CPUS, MOST_SLOTS, SLOT, class_of, refusing
from kit.trials import Outcomes, Plays, Trial, checked, tried

PLAYS = Plays()
ABSENT = "no-such-thing"
NODE_FILES = {"name": "node", "hostPath": {"path": "/"}}


async def pods_are_refused(trial: Trial, **server: Any) -> None:
    """The client is there, and the pods of the server are not made."""
    await trial.has_client(server=server)
    await trial.pods_are_refused()


@PLAYS.of("limit-range")
async def limit_range(trial: Trial) -> None:
    await pods_are_refused(trial, resources={"limits": {"cpu": str(MOST_CPUS + 1)}})


@PLAYS.of("quota-too-small")
async def quota_too_small(trial: Trial) -> None:
    await pods_are_refused(trial, resources={"limits": {SLOT: str(MOST_SLOTS + 1)}})


@PLAYS.of("quota-full")
async def quota_full(trial: Trial) -> None:
    await pods_are_refused(trial, resources={"limits": {SLOT: "1"}})


@PLAYS.of("quota-wants-limits")
async def quota_wants_limits(trial: Trial) -> None:
    await pods_are_refused(
        trial, pod={"priorityClassName": class_of(trial.played.namespace)}
    )


@PLAYS.of("pod-security")
async def pod_security(trial: Trial) -> None:
    await pods_are_refused(trial, pod={"volumes": [NODE_FILES]})


@PLAYS.of("priority-class-missing")
async def priority_class_missing(trial: Trial) -> None:
    await pods_are_refused(trial, pod={"priorityClassName": ABSENT})


@PLAYS.of("runtime-class-missing")
async def runtime_class_missing(trial: Trial) -> None:
    await pods_are_refused(trial, pod={"runtimeClassName": ABSENT})


@PLAYS.of("service-account-missing")
async def service_account_missing(trial: Trial) -> None:
    await pods_are_refused(trial, pod={"serviceAccountName": ABSENT})


@PLAYS.of("client-account-missing")
async def client_account_missing(trial: Trial) -> None:
    await trial.begins(client={"pod": {"serviceAccountName": ABSENT}})
    await trial.played.gets(trial.run, "Job", "client")
    trial.shown()


@PLAYS.of("admission-policy")
@PLAYS.of("webhook-denies")
async def denied(trial: Trial) -> None:
    await pods_are_refused(trial)


@PLAYS.of("object-denied")
async def object_denied(trial: Trial) -> None:
    await trial.has_client()
    trial.shown()


@PLAYS.of("webhook-away")
async def webhook_away(trial: Trial) -> None:
    await trial.has_client(pendingDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.pods_are_refused()


@pytest.fixture(scope="module")
def outcomes(definition: str, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What became of each of them."""
    return asyncio.run(_tried(tmp_path_factory.mktemp("refused")))


async def _tried(directory: Path) -> Outcomes:
    webhooks = {
        "denied": {"webhook-denies": "pods"},
        "dead": {"webhook-away": "pods"},
    }
    async with (
        played_cluster(directory) as played,
        refusing(played.api, played.namespace),
        denying(played.api, played.namespace, directory, **webhooks, role="server"),
    ):
        return await tried(played, PLAYS)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", of("refusal"), ids=lambda fault: fault.name)
def test_a_refusal_is_told_and_ends_in_time(
    fault: Fault, outcomes: Outcomes
) -> None:
    checked(fault, outcomes)
