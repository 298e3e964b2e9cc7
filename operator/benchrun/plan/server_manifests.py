"""What makes the pods of a server role: Deployment or LeaderWorkerSet, and the headless Service."""

from __future__ import annotations

from benchrun_client.engines import ENGINE

from benchrun import names
from benchrun.plan.pods import STAY, Manifest, Owner, headless_service, held, metadata, stamped
from benchrun.plan.roles import Role
from benchrun.plan.server_pod import worker_pod

_A_YEAR_SECONDS = 31_536_000


def leader_worker_set(owner: Owner, role: Role) -> Manifest:
    """The LeaderWorkerSet of a role whose servers run over several nodes: it makes each server's pods, as a group."""
    pods = {"labels": names.labels(run=owner.name, uid=owner.uid, role=role.name), "annotations": STAY}
    return stamped(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": held(
                metadata(owner, name=names.group_name(owner.name, owner.uid), role=role.name), role.hold_seconds
            ),
            "spec": {
                "replicas": role.replicas,
                "startupPolicy": "LeaderCreated",
                "leaderWorkerTemplate": {
                    "size": role.nodes,
                    # A group made anew would be another server, and would take the log of the pod that failed with it.
                    "restartPolicy": "None",
                    "leaderTemplate": {"metadata": pods, "spec": role.pod_spec},
                    "workerTemplate": {"metadata": pods, "spec": worker_pod(role.pod_spec)},
                },
            },
        }
    )


def workload(owner: Owner, role: Role) -> Manifest:
    """What makes the role's pods: a Deployment, or a LeaderWorkerSet where a server is more than one pod."""
    return deployment(owner, role) if role.nodes == 1 else leader_worker_set(owner, role)


def deployment(owner: Owner, role: Role) -> Manifest:
    """The role's pods. Recreate: two servers at once would need two GPUs."""
    labels = names.labels(run=owner.name, uid=owner.uid, role=role.name)
    return stamped(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": held(metadata(owner, role=role.name), role.hold_seconds),
            "spec": {
                "replicas": role.replicas,
                "revisionHistoryLimit": 0,
                # The run's own deadlines decide; Kubernetes' would only add a second opinion.
                "progressDeadlineSeconds": _A_YEAR_SECONDS,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, "annotations": STAY}, "spec": role.pod_spec},
            },
        }
    )


def service(owner: Owner, role: Role) -> Manifest:
    """Gives the client the pods' addresses before they are ready, so that it sees the first healthy answer itself.

    Of a server over several nodes only the leader answers.
    """
    leaders = {} if role.nodes == 1 else {names.LABEL_WORKER_INDEX: "0"}
    return headless_service(owner, role.name, port_name="http", port=ENGINE.port, selector=leaders)
