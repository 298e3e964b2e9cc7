"""Which objects must exist now, in the order that never lets a GPU wait: the client first, the server when it is ready."""

from __future__ import annotations

from benchrun_client.contract import digest_of_token

from benchrun import names
from benchrun.decide.decision import Manifest, Ref, World
from benchrun.decide.followed import endpoint_addresses
from benchrun.decide.situation import Situation
from benchrun.observe.views import Child
from benchrun.plan.client_manifests import client_job, client_service, division_of, plan_config_map
from benchrun.plan.client_plan import client_plan
from benchrun.plan.network_policies import network_policies
from benchrun.plan.pods import token_of
from benchrun.plan.roles import in_development_mode, roles
from benchrun.plan.server_manifests import service, workload


def missing_children(situation: Situation) -> tuple[Manifest, ...]:
    """What is wanted and not there. What exists is left as it is, and what vanished once client and server have met is
    not made again: either would void the measurement."""
    if situation.begun:
        return ()
    wanted = [*_fence(situation), *_client(situation), *_server(situation)]
    return tuple(m for m in wanted if situation.children.named(m["kind"], m["metadata"]["name"]) is None)


def release_client(situation: Situation) -> tuple[Ref, ...]:
    """The client's Job, unless all its pods have ended: then it costs nothing and their logs may be wanted."""
    job, pods = situation.child("Job", names.ROLE_CLIENT), situation.client_pods
    if job is None or (pods and all(pod.phase in ("Succeeded", "Failed") for pod in pods)):
        return ()
    return (ref_to(situation.world, job),)


def release_servers(world: World) -> tuple[Ref, ...]:
    """What makes the pods of every server role: that is what holds the GPU. The rest goes with the run."""
    kinds = ("Deployment", "LeaderWorkerSet")
    return tuple(ref_to(world, c) for c in _own(world) if c.role in names.SERVING_ROLES and c.kind in kinds)


def release_all(world: World) -> tuple[Ref, ...]:
    """Server, then client, of a run whose spec can't be read (any more): what is ours is known by its owner."""
    return (*release_servers(world), *(ref_to(world, c) for c in _own(world) if c.kind == "Job"))


def ref_to(world: World, child: Child) -> Ref:
    """The object, to be deleted."""
    return Ref(kind=child.kind, namespace=world.run.namespace, name=child.name, uid=child.uid)


def _own(world: World) -> list[Child]:
    """What is ours and not on its way out."""
    return [c for c in world.children.objects if c.owner_uid == world.run.uid and not c.deleting]


def _client(situation: Situation) -> list[Manifest]:
    owner, spec, context = situation.owner, situation.spec, situation.world.context
    meeting = [client_service(owner)] if division_of(spec).pods > 1 else []
    if situation.has_plan and situation.child("Job", names.ROLE_CLIENT) is not None:
        return meeting  # to write a plan of many stages takes its time
    token = token_of(context.channel_key, owner.uid)
    plan = client_plan(
        owner, spec, token_digest=digest_of_token(token), endpoint_addresses=endpoint_addresses(situation)
    )
    job = client_job(
        owner,
        spec,
        plan_digest=plan.digest(),
        default_image=context.client_image,
        pull_policy=context.client_image_pull_policy,
        max_hold_seconds=context.max_hold_seconds,
    )
    return [plan_config_map(owner, plan), *meeting, job]


def _server(situation: Situation) -> list[Manifest]:
    """The Service comes with the client, which looks up its name; the Deployment only when the client is ready for it,
    and has been heard: a client that only this operator does not know yet may have measured already."""
    owner, context = situation.owner, situation.world.context
    image = situation.spec.client.image or context.client_image
    started = roles(
        owner,
        situation.spec,
        client_image=image,
        pull_policy=context.client_image_pull_policy,
        max_hold_seconds=context.max_hold_seconds,
    )
    early = [service(owner, role) for role in started]
    if not (situation.client_ready and situation.client_heard):
        return early
    return [*early, *(workload(owner, role) for role in started)]


def _fence(situation: Situation) -> list[Manifest]:
    """Before the pods, and left to the garbage collector: what goes with the Deployment would fall before them. An operator that
    reaches pods through the API server would be shut out itself; servers in development mode are fenced nevertheless."""
    spec, context = situation.spec, situation.world.context
    is_asked = context.network_policies and context.pod_road == "Direct"
    if not is_asked and not in_development_mode(spec):
        return []
    return network_policies(
        situation.owner,
        spec,
        operator_namespace=context.operator_namespace,
        extra_peers=context.policy_peers,
        servers_only=not is_asked,
    )
