"""LeaderWorkerSet of a server role whose servers run over several nodes: it makes each server's pods, as a group."""

from __future__ import annotations

from benchrun.api import names
from benchrun.plan.many_nodes import worker_pod
from benchrun.plan.metadata import Manifest, Owner, held, metadata, stamped
from benchrun.plan.pods import STAY
from benchrun.plan.roles import Role


def leader_worker_set(owner: Owner, role: Role) -> Manifest:
    """The role's groups of pods."""
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
