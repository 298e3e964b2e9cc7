"""Which objects must exist now, in the order that never lets a GPU wait: the client first, the server when it is ready."""

from __future__ import annotations

from benchrun.api import names
from benchrun.decide.decision import Manifest, Ref, World
from benchrun.decide.situation import Situation
from benchrun.observe.views import Child
from benchrun.plan.client_manifests import client_job, client_service, plan_config_map
from benchrun.plan.client_plan import client_plan
from benchrun.plan.roles import in_development_mode, roles
from benchrun.plan.server_manifests import network_policy, service, workload
from benchrun.plan.shards import division_of


def missing_children(situation: Situation) -> tuple[Manifest, ...]:
    """What is wanted and not there. What exists is left as it is, and what vanished once client and server have met is
    not made again: either would void the measurement."""
    if situation.begun:
        return ()
    wanted = [*_client(situation), *_server(situation)]
    return tuple(m for m in wanted if situation.children.named(m["kind"], m["metadata"]["name"]) is None)


def release_server(situation: Situation) -> tuple[Ref, ...]:
    """Everything of every server role, what makes pods first: that is what holds the GPU."""
    return _server_refs(situation.world)


def release_client(situation: Situation) -> tuple[Ref, ...]:
    """The client's Job, unless all its pods have ended: then it costs nothing and their logs may be wanted."""
    job, pods = situation.child("Job", names.ROLE_CLIENT), situation.client_pods
    if job is None or (pods and all(pod.phase in ("Succeeded", "Failed") for pod in pods)):
        return ()
    return (_ref(situation.world, job),)


def release_all(world: World) -> tuple[Ref, ...]:
    """Server, then client, of a run whose spec can't be read (any more): what is ours is known by its owner."""
    jobs = [c for c in _own(world) if c.kind == "Job" and not c.deleting]
    return (*_server_refs(world), *(_ref(world, job) for job in jobs))


def _server_refs(world: World) -> tuple[Ref, ...]:
    kinds = ("Deployment", "LeaderWorkerSet", "Service")
    own = [c for c in _own(world) if c.role in names.SERVING_ROLES and c.kind in kinds and not c.deleting]
    return tuple(_ref(world, c) for c in sorted(own, key=lambda c: c.kind))


def _own(world: World) -> list[Child]:
    return [c for c in world.children.objects if c.owner_uid == world.run.uid]


def _ref(world: World, child: Child) -> Ref:
    return Ref(kind=child.kind, namespace=world.run.namespace, name=child.name, uid=child.uid)


def _client(situation: Situation) -> list[Manifest]:
    owner, spec, context = situation.owner, situation.spec, situation.world.context
    addresses = situation.collected.endpoint_addresses or ()
    job = client_job(owner, spec, default_image=context.client_image, pull_policy=context.client_image_pull_policy)
    meeting = [client_service(owner)] if division_of(spec).pods > 1 else []
    return [plan_config_map(owner, client_plan(owner, spec, endpoint_addresses=addresses)), *meeting, job]


def _server(situation: Situation) -> list[Manifest]:
    """The Service comes with the client, which looks up its name; the Deployment only when the client is ready for it,
    and has been heard: a client that only this operator does not know yet may have measured already."""
    context = situation.world.context
    image = situation.spec.client.image or context.client_image
    started = roles(situation.owner, situation.spec, client_image=image, pull_policy=context.client_image_pull_policy)
    early = [service(situation.owner, role) for role in started]
    if in_development_mode(situation.spec):
        # Before the pods, and left to the garbage collector: a fence that goes with the Deployment would fall before them.
        early += [network_policy(situation.owner, role) for role in started]
    if not (situation.client_ready and situation.client_heard):
        return early
    return [*early, *(workload(situation.owner, role) for role in started)]
