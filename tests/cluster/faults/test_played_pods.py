"""Every fault of a server's or a client's pod that a kubelet, a scheduler or a person can cause,
played at the same time: the run ends or waits with its own reason, soon, and lets go of the GPU."""

import asyncio
import gzip
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit import pod_statuses
from kit.faults import BY_NAME, Fault, of
from kit.hostile_client import BOMBS, HostileClient
from kit.played import played_cluster
from kit.trials import Outcomes, Plays, Trial, checked, tried

RECORD_PORT = 8090
GRACE_SECONDS = int(BY_NAME["no-such-node"].waits_seconds)
NO_GPU_AT_ALL = (
    f"{pod_statuses.HEAD}3 node(s) didn't match Pod's node affinity/selector. "
    f"{pod_statuses.NO_PREEMPTION}"
)
NO_GPU_NOW = (
    f"{pod_statuses.HEAD}3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: "
    "3 No preemption victims found for incoming pod."
)
NO_CLAIM = f'{pod_statuses.HEAD}persistentvolumeclaim "weights" not found. preemption: not helpful'

PLAYS = Plays()


# ---- servers
# -------------------------------------------------------------------------------------------------


@PLAYS.of("server-oom")
async def server_oom(trial: Trial) -> None:
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.ended("server", code=137, reason="OOMKilled")
    )


@PLAYS.of("server-oom-late")
async def server_oom_late(trial: Trial) -> None:
    await trial.measures()
    await trial.pod_says(
        "server", pod_statuses.ended("server", code=137, reason="OOMKilled")
    )


@PLAYS.of("bad-value")
async def bad_value(trial: Trial) -> None:
    words = "Traceback (most recent call last):\nValueError: max_num_seqs must be at least 1"
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.ended("server", code=1, message=words)
    )


@PLAYS.of("port-taken")
async def port_taken(trial: Trial) -> None:
    words = "OSError: [Errno 98] Address already in use"
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.looping("server", code=1, message=words)
    )


@PLAYS.of("hangs-in-load")
async def hangs_in_load(trial: Trial) -> None:
    await trial.has_server(startupDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.pod_says(
        "server", pod_statuses.loading("server", trial.run.address)
    )


@PLAYS.of("restarts")
async def restarts(trial: Trial) -> None:
    await trial.measures()
    await trial.pod_says(
        "server", pod_statuses.restarted("server", trial.run.address, code=1)
    )


@PLAYS.of("deleted-by-hand")
async def deleted_by_hand(trial: Trial) -> None:
    await trial.measures()
    deployment = await trial.played.gets(trial.run, "Deployment", "server")
    await trial.played.delete("Deployment", deployment["metadata"]["name"])
    trial.shown()


@PLAYS.of("server-evicted")
async def server_evicted(trial: Trial) -> None:
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.pod_failed("Evicted", "The node was low on memory")
    )


@PLAYS.of("server-preempted")
async def server_preempted(trial: Trial) -> None:
    await trial.has_server()
    await trial.is_on_a_lost_node("server")
    await trial.pod_says("server", pod_statuses.disrupted("PreemptionByScheduler"))
    await trial.pod_is_deleted("server")


@PLAYS.of("server-node-lost")
async def server_node_lost(trial: Trial) -> None:
    await trial.measures()
    await trial.is_on_a_lost_node("server")
    await trial.pod_says("server", pod_statuses.disrupted("DeletionByTaintManager"))
    await trial.pod_is_deleted("server")


@PLAYS.of("node-refuses")
async def node_refuses(trial: Trial) -> None:
    words = "Allocate failed due to no healthy devices present"
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.pod_failed("UnexpectedAdmissionError", words)
    )


@PLAYS.of("image-missing")
async def image_missing(trial: Trial) -> None:
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.waiting("server", "ImagePullBackOff", "not found")
    )


@PLAYS.of("image-late")
async def image_late(trial: Trial) -> None:
    words = "dial tcp: i/o timeout"
    await trial.has_server()
    await trial.pod_says(
        "server", pod_statuses.waiting("server", "ErrImagePull", words)
    )


@PLAYS.of("image-slow")
async def image_slow(trial: Trial) -> None:
    await trial.has_server(startupDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.pod_says(
        "server", pod_statuses.waiting("server", "ContainerCreating")
    )


@PLAYS.of("no-such-node")
async def no_such_node(trial: Trial) -> None:
    await trial.has_server()
    await trial.pod_says("server", pod_statuses.no_node(NO_GPU_AT_ALL))


@PLAYS.of("no-such-node-deadline")
async def no_such_node_deadline(trial: Trial) -> None:
    await trial.has_server(pendingDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.pod_says("server", pod_statuses.no_node(NO_GPU_AT_ALL))


@PLAYS.of("no-room-now")
async def no_room_now(trial: Trial) -> None:
    await trial.has_server()
    await trial.pod_says("server", pod_statuses.no_node(NO_GPU_NOW))


@PLAYS.of("gated")
async def gated(trial: Trial) -> None:
    await trial.has_server()
    gates = pod_statuses.no_node("has gates", reason="SchedulingGated")
    await trial.pod_says("server", gates)


@PLAYS.of("claim-missing")
async def claim_missing(trial: Trial) -> None:
    await trial.has_server(pendingDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.pod_says("server", pod_statuses.no_node(NO_CLAIM))


@PLAYS.of("secret-missing")
async def secret_missing(trial: Trial) -> None:
    words = 'secret "absent" not found'
    await trial.has_server(startupDeadlineSeconds=int(trial.fault.waits_seconds))
    status = pod_statuses.waiting("server", "CreateContainerConfigError", words)
    await trial.pod_says("server", status)


@PLAYS.of("runs-as-root")
async def runs_as_root(trial: Trial) -> None:
    words = "container has runAsNonRoot and image will run as root"
    await trial.has_server()
    status = pod_statuses.waiting("server", "CreateContainerConfigError", words)
    await trial.pod_says("server", status)


# ---- clients
# -------------------------------------------------------------------------------------------------


@PLAYS.of("client-oom")
async def client_oom(trial: Trial) -> None:
    await trial.measures()
    await trial.run.client.stop()
    killed = pod_statuses.ended(
        "client", code=137, reason="OOMKilled", phase="Failed"
    )
    await trial.pod_says("client", killed)


@PLAYS.of("client-killed")
async def client_killed(trial: Trial) -> None:
    await trial.measures()
    await trial.run.client.stop()
    await trial.pod_says(
        "client", pod_statuses.ended("client", code=137, phase="Failed")
    )


@PLAYS.of("client-evicted")
async def client_evicted(trial: Trial) -> None:
    await trial.measures()
    await trial.run.client.stop()
    await trial.pod_says(
        "client", pod_statuses.pod_failed("Evicted", "The node was low on memory")
    )


@PLAYS.of("client-image-missing")
async def client_image_missing(trial: Trial) -> None:
    await trial.begins()
    await trial.played.gets(trial.run, "Pod", "client")
    await trial.pod_says(
        "client", pod_statuses.waiting("client", "ImagePullBackOff", "not found")
    )


@PLAYS.of("client-hangs-at-start")
async def client_hangs_at_start(trial: Trial) -> None:
    await trial.begins(startupDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.played.gets(trial.run, "Pod", "client")
    await trial.pod_says(
        "client", pod_statuses.loading("client", trial.run.address)
    )


@PLAYS.of("client-silent")
async def client_silent(trial: Trial) -> None:
    await trial.measures(runDeadlineSeconds=int(trial.fault.waits_seconds))
    await trial.run.client.stop()
    trial.shown()


@PLAYS.of("client-hangs")
async def client_hangs(trial: Trial) -> None:
    await trial.measures(runDeadlineSeconds=int(trial.fault.waits_seconds))
    trial.shown()


@PLAYS.of("client-no-record")
async def client_no_record(trial: Trial) -> None:
    await trial.measures()
    await trial.run.client.stop()
    await trial.played.client_exits(trial.run)
    trial.shown()


@PLAYS.of("client-node-lost")
async def client_node_lost(trial: Trial) -> None:
    await trial.measures()
    await trial.run.client.stop()
    await trial.is_on_a_lost_node("client")
    await trial.pod_says("client", pod_statuses.disrupted("DeletionByTaintManager"))
    await trial.pod_is_deleted("client")


@PLAYS.of("client-deleted-on-a-lost-node")
async def client_deleted_on_a_lost_node(trial: Trial) -> None:
    await trial.measures()
    await trial.run.client.stop()
    await trial.is_on_a_lost_node("client")
    await trial.pod_is_deleted("client")


class Stranger(HostileClient):
    """Its records are of another run than it says of itself."""

    def _envelope(self, sequence: int) -> dict[str, Any]:
        return {
            **super()._envelope(sequence),
            "run_uid": "00000000-0000-0000-0000-000000000000",
        }


class Repeater(HostileClient):
    """All of its records are of the first stage."""

    def _envelope(self, sequence: int) -> dict[str, Any]:
        return {
            **super()._envelope(sequence),
            "stage_id": self.plan["stages"][0]["id"],
        }


async def hands_out(
    trial: Trial,
    body: bytes,
    *,
    made: type[HostileClient] = HostileClient,
    **of_client: Any,
) -> None:
    """Records of this body, as many as the run has stages, once its server is there."""
    await trial.begins()
    plan = await trial.played.plan(trial.run)
    client = made(trial.run.address, RECORD_PORT, plan=plan, body=body, **of_client)
    client.start()
    trial.at_the_end(partial(asyncio.to_thread, client.stop))
    await trial.played.client_pod_runs(trial.run)
    if client.only_version is None:
        await trial.played.server_starts(trial.run)
    client.armed.set()
    trial.shown()


@PLAYS.of("client-other-contract")
async def client_other_contract(trial: Trial) -> None:
    await hands_out(trial, b"", only_version=1)


@PLAYS.of("client-of-another-run")
async def client_of_another_run(trial: Trial) -> None:
    await hands_out(trial, gzip.compress(b"{}"), made=Stranger)


@PLAYS.of("client-repeats")
async def client_repeats(trial: Trial) -> None:
    await hands_out(trial, gzip.compress(b"{}"), made=Repeater)


@PLAYS.of("client-garbage")
async def client_garbage(trial: Trial) -> None:
    await hands_out(trial, b"no record at all")


@PLAYS.of("client-bomb")
async def client_bomb(trial: Trial) -> None:
    await hands_out(trial, await asyncio.to_thread(BOMBS["endless"]))


# ---- all of them
# -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(definition: str, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What became of each of them."""
    return asyncio.run(_tried(tmp_path_factory.mktemp("played")))


async def _tried(directory: Path) -> Outcomes:
    settings = {"BENCHRUN_UNSCHEDULABLE_GRACE_SECONDS": str(GRACE_SECONDS)}
    async with played_cluster(directory, settings=settings) as played:
        return await tried(played, PLAYS)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "fault", [*of("server"), *of("client")], ids=lambda fault: fault.name
)
def test_a_fault_is_told_and_lets_go_in_time(
    fault: Fault, outcomes: Outcomes
) -> None:
    checked(fault, outcomes)
