"""Which objects must exist now, in the order that never lets a GPU wait: the client first, the server when it is ready."""

from __future__ import annotations

from benchrun.api import names
from benchrun.decide.decision import Manifest, Ref
from benchrun.decide.situation import Situation
from benchrun.plan.client_manifests import client_job, plan_config_map
from benchrun.plan.client_plan import client_plan
from benchrun.plan.roles import roles
from benchrun.plan.server_manifests import deployment, service


def missing_children(situation: Situation) -> tuple[Manifest, ...]:
    """What is wanted and not there. What exists is left as it is: a change mid-run would void the measurement."""
    wanted = [*_client(situation), *_server(situation)]
    return tuple(m for m in wanted if situation.children.named(m["kind"], m["metadata"]["name"]) is None)


def release_server(situation: Situation) -> tuple[Ref, ...]:
    """Everything of every server role, Deployments first: that is what holds the GPU."""
    own = [
        c
        for c in situation.children.objects
        if c.role == names.ROLE_SERVER and c.kind in ("Deployment", "Service") and not c.deleting
    ]
    return tuple(_ref(situation, c.kind, c.name, c.uid) for c in sorted(own, key=lambda c: c.kind))


def release_client(situation: Situation) -> tuple[Ref, ...]:
    """The client's Job, unless its pod has ended: then it costs nothing and its log may be wanted."""
    job = situation.child("Job", names.ROLE_CLIENT)
    pod = situation.client_pod
    if job is None or (pod is not None and pod.phase in ("Succeeded", "Failed")):
        return ()
    return (_ref(situation, "Job", job.name, job.uid),)


def _ref(situation: Situation, kind: str, name: str, uid: str) -> Ref:
    return Ref(kind=kind, namespace=situation.owner.namespace, name=name, uid=uid)


def _client(situation: Situation) -> list[Manifest]:
    owner, spec, context = situation.owner, situation.spec, situation.world.context
    addresses = situation.collected.endpoint_addresses or ()
    job = client_job(owner, spec, default_image=context.client_image, pull_policy=context.client_image_pull_policy)
    return [plan_config_map(owner, client_plan(owner, spec, endpoint_addresses=addresses)), job]


def _server(situation: Situation) -> list[Manifest]:
    """The Service comes with the client, which looks up its name; the Deployment only when the client is ready for it."""
    started = roles(situation.spec)
    services = [service(situation.owner, role) for role in started]
    if not (situation.client_ready or situation.server_exists):
        return services
    return [*services, *(deployment(situation.owner, role) for role in started)]
