"""What makes the pods of a server role: Deployment or LeaderWorkerSet, and the headless Service."""

from __future__ import annotations

from benchrun_client.engines import ENGINE

from benchrun import names
from benchrun.plan.pods import STAY, Manifest, Owner, headless_service, held, metadata, stamped
from benchrun.plan.roles import Role
from benchrun.plan.server_pod import worker_pod

_A_YEAR_SECONDS = 31_536_000


def workload(owner: Owner, role: Role) -> Manifest:
    """What makes the role's pods: a Deployment, or a LeaderWorkerSet where each server is a group of pods over several nodes."""
    labels, name = names.labels(run=owner.name, uid=owner.uid, role=role.name), None
    pod = {"labels": labels, "annotations": STAY}
    if role.nodes == 1:
        kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
        spec = {
            "replicas": role.replicas,
            "revisionHistoryLimit": 0,
            # The run's own deadlines decide; Kubernetes' would only add a second opinion.
            "progressDeadlineSeconds": _A_YEAR_SECONDS,
            "strategy": {"type": "Recreate"},  # two servers at once would need two GPUs
            "selector": {"matchLabels": labels},
            "template": {"metadata": pod, "spec": role.pod_spec},
        }
    else:
        kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
        name = names.group_name(owner.name, owner.uid)
        spec = {
            "replicas": role.replicas,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": role.nodes,
                # A new group would be another server, and would take the log of the pod that failed with it.
                "restartPolicy": "None",
                "leaderTemplate": {"metadata": pod, "spec": role.pod_spec},
                "workerTemplate": {"metadata": pod, "spec": worker_pod(role.pod_spec)},
            },
        }
    about = held(metadata(owner, name=name, role=role.name), role.hold_seconds)
    return stamped({**kind, "metadata": about, "spec": spec})


def service(owner: Owner, role: Role) -> Manifest:
    """Gives the client the pods' addresses before they are ready, so that it sees the first healthy answer itself.

    Of a server over several nodes only the leader answers.
    """
    leaders = {} if role.nodes == 1 else {names.LABEL_WORKER_INDEX: "0"}
    return headless_service(owner, role.name, port_name="http", port=ENGINE.port, selector=leaders)
