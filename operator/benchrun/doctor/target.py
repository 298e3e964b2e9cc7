"""The run to check: its objects and pods, as the operator would create them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchrun_client.contract import digest_of_token

from benchrun import names, plan
from benchrun.api import BenchmarkRunSpec
from benchrun.doctor.operators import FoundOperator
from benchrun.observe import Place
from benchrun.plan import network_policies

Manifest = dict[str, Any]
UID = "00000000-0000-4000-8000-000000000000"
"""Stands for the uid of the run, which does not exist yet."""
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
JOBS = "system:serviceaccount:kube-system:job-controller"
STATEFUL_SETS = "system:serviceaccount:kube-system:statefulset-controller"


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A kind of pod of the run, and how many of them there are."""

    role: str
    count: int
    manifest: Manifest
    place: Place
    account: str  # User name of the controller that creates it.

    @property
    def subject(self) -> str:
        return f"pod of {self.role}"

    @property
    def spec(self) -> Manifest:
        found: Manifest = self.manifest["spec"]
        return found

    @property
    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.manifest["metadata"]["labels"]
        return found

    @property
    def containers(self) -> list[Manifest]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A run in a namespace, with its objects and pods."""

    namespace: str
    name: str
    spec: BenchmarkRunSpec
    objects: tuple[Manifest, ...]
    pods: tuple[PlannedPod, ...]
    is_given: bool = (
        True  # False if the user gave no run, and this one stands for any.
    )
    also: tuple[str, ...] = ()  # Names of other runs with the same pods.

    @property
    def title(self) -> str:
        """Return the name of the run, and how many other runs it stands for."""
        return f"{self.name} and {len(self.also)} more" if self.also else self.name


def target_of(
    namespace: str,
    name: str,
    spec: BenchmarkRunSpec,
    operator: FoundOperator,
    *,
    is_given: bool = True,
    labels: plan.Labels = (),
) -> RunTarget:
    """Build the objects and pods of a run, as the operator would create them.

    `labels` are the run's own; the platform's defaults may copy some of them to its pods.
    """
    applied = plan.applied_to(labels, operator.defaults or plan.NO_DEFAULTS)
    owner = plan.Owner(namespace, name, UID, labels=applied.labels)
    declared = spec
    spec = plan.with_defaults(declared, applied)
    image = spec.client.image or operator.client_image
    policy = operator.pull_policy
    given = plan.plan_of_client(owner, spec, token_digest=digest_of_token(UID))
    job = plan.client_job(
        owner,
        declared,
        plan_digest=given.digest(),
        default_image=operator.client_image,
        pull_policy=policy,
        applied=applied,
    )
    roles = plan.server_roles(
        owner,
        declared,
        client_image=image,
        pull_policy=policy,
        applied=applied,
    )
    client_pods = plan.division_of(spec).pods
    for_all = operator.network_policies
    fences = (
        network_policies.network_policy_manifests(
            owner,
            spec,
            operator_namespace=operator.namespace,
            servers_only=not for_all,
        )
        if for_all or plan.in_development_mode(spec)
        else []
    )
    objects = [
        plan.plan_config_map(owner, given, spec.chat_template),
        *fences,
        *([plan.client_service(owner)] if client_pods > 1 else []),
        job,
        *(plan.service(owner, role) for role in roles),
        *(plan.workload(owner, role) for role in roles),
    ]
    field_name = f"spec.{spec.started_name}"
    place = Place(names.ROLE_CLIENT, field_name)
    pods = [
        _pod(names.ROLE_CLIENT, client_pods, job["spec"]["template"], place, JOBS)
    ]
    for role in roles:
        pods += _pods_of(
            plan.workload(owner, role), role, Place(role.name, field_name)
        )
    return RunTarget(namespace, name, spec, tuple(objects), tuple(pods), is_given)


def _pods_of(workload: Manifest, role: Any, place: Place) -> Iterator[PlannedPod]:
    spec = workload["spec"]
    if role.nodes == 1:
        yield _pod(role.name, role.replicas, spec["template"], place, REPLICA_SETS)
        return
    group = spec["leaderWorkerTemplate"]
    yield _pod(
        role.name, role.replicas, group["leaderTemplate"], place, STATEFUL_SETS
    )
    workers = role.replicas * (role.nodes - 1)
    yield _pod(role.name, workers, group["workerTemplate"], place, STATEFUL_SETS)


def _pod(
    role: str, count: int, template: Manifest, place: Place, account: str
) -> PlannedPod:
    metadata = {**template["metadata"], "generateName": f"benchrun-doctor-{role}-"}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template["spec"],
    }
    return PlannedPod(role, count, manifest, place, account)


def merged(targets: list[RunTarget]) -> list[RunTarget]:
    """Merge targets whose pods differ only in their arguments, as those of a sweep often do."""
    found: dict[str, RunTarget] = {}
    for each in targets:
        pods = [_without_args(pod.spec) for pod in each.pods]
        own = names.child_name(each.name, UID, "")
        key = json.dumps(pods, sort_keys=True).replace(own, "")
        first = found.setdefault(key, each)
        if first is not each:
            found[key] = replace(first, also=(*first.also, each.name))
    return list(found.values())


def _without_args(spec: Manifest) -> Manifest:
    containers = [
        {name: value for name, value in each.items() if name != "args"}
        for each in spec["containers"]
    ]
    return {**spec, "containers": containers}
