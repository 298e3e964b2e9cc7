"""Objects of a run: what must exist now, what records and timeline are stored, what is released, what a finished run keeps.

The client is created first, the server when the client is ready, so that no GPU waits.

A finished run keeps less than 1 MiB in all its ConfigMaps: the figures are in the status by then. Records are kept in the order of the
plan, up to the first that does not fit; chunks of the timeline likewise, in half of the room at most. A record takes its part of the
timeline with it. The last ones are deleted first, so that an operator that dies in between leaves what the next one would keep too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchrun_client.contract import digest_of_token

from benchrun import names
from benchrun.api import Reason, Truncated, as_many_as_fit
from benchrun.decide.deadlines import RESULTS, deadlines, results_refused
from benchrun.decide.servers import endpoint_addresses
from benchrun.decide.situation import Situation
from benchrun.decide.world import Manifest, Ref, World
from benchrun.measure.timeline import bucket_size, bucketed, encode
from benchrun.observe.untrusted_json import instant
from benchrun.observe.views import Child
from benchrun.plan.client_manifests import client_job, client_service, division_of, plan_config_map
from benchrun.plan.client_plan import client_plan
from benchrun.plan.network_policies import network_policies
from benchrun.plan.pods import token_of
from benchrun.plan.roles import in_development_mode, roles
from benchrun.plan.server_manifests import service, workload
from benchrun.plan.stored import TimelinePart, stage_config_map, timeline_config_map


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
        extra_peers=context.network_policy_peers,
        servers_only=not is_asked,
    )


CHUNK_SECONDS = 240.0
"""The timeline within a stage is kept at least this often: what a dead operator can lose."""
PLAN_BYTES = 128 * 1024
"""Room for the plan: its largest, of 256 stages."""
RESULT_BYTES = 1024 * 1024 - PLAN_BYTES
TIMELINE_BYTES = RESULT_BYTES // 2


def to_store(situation: Situation) -> tuple[Manifest, ...]:
    """ConfigMaps to write now. The timeline goes with the first new record, or alone when a stage is long."""
    samples = situation.collected.samples.unstored
    fresh = [a for s, a in sorted(situation.collected.arrivals.items()) if s not in situation.stored]
    if fresh:
        return tuple(
            stage_config_map(
                situation.owner, arrival, timeline=_packed(situation) if samples and not position else None
            )
            for position, arrival in enumerate(fresh)
        )
    if samples and situation.now.timestamp() - samples[0].at >= CHUNK_SECONDS:
        chunk = sum(child.role == names.ROLE_TIMELINE for child in situation.children.objects)
        return (timeline_config_map(situation.owner, chunk=chunk, timeline=_packed(situation)),)
    return ()


def worth_waiting_to_store(situation: Situation) -> bool:
    """What was measured is refused, by a quota say, and may still be taken: until the run's deadline."""
    refused = situation.collected.refused_object
    if refused is None or not results_refused(situation) or not refused.curable:
        return False
    return not any(d.reason == Reason.RUN_DEADLINE and d.passed(situation.now) for d in deadlines(situation))


def last_to_store(situation: Situation) -> tuple[Manifest, ...]:
    """At the end of a run: what can't be stored keeps nobody from the results."""
    return () if results_refused(situation) else to_store(situation)


def to_acknowledge(situation: Situation, stored_now: Iterable[Manifest] = ()) -> int | None:
    """Records below this are stored once `stored_now` is written; None: there is nobody to tell, or nothing."""
    if not situation.client_heard or not situation.client_runs:
        return None
    written = {int(m["metadata"]["labels"].get(names.LABEL_SEQUENCE, -1)) for m in stored_now}
    return situation.stored_prefix(also=written) or None


def _packed(situation: Situation) -> TimelinePart:
    """What was sampled since the last chunk, coarser the longer the run has been."""
    samples = situation.collected.samples.unstored
    data = encode(bucketed(samples, bucket_size(_samples_before(situation))))
    return TimelinePart(data, through=max(sample.at for sample in samples))


def _samples_before(situation: Situation) -> int:
    """How many samples the run has taken before these, by its age: a restarted operator has not counted them."""
    samples, ready = situation.collected.samples.unstored, instant(situation.status.server_ready_time)
    if ready is None or not samples:
        return 0
    seconds = max(0.0, samples[0].at - ready.timestamp())
    servers = len({(s.role, s.pod) for s in samples})
    return int(seconds / situation.spec.measurement.scrape_interval_seconds) * servers


@dataclass(frozen=True, slots=True)
class Stored:
    """A ConfigMap of a stage or of the timeline."""

    name: str
    role: str
    size_bytes: int


def kept(stored: Iterable[Stored]) -> tuple[Stored, ...]:
    """Those that stay, timeline first."""
    ordered = sorted(stored, key=lambda s: _in_order(s.name))
    timeline = _that_fit(ordered, names.ROLE_TIMELINE, TIMELINE_BYTES)
    room = RESULT_BYTES - sum(s.size_bytes for s in timeline)
    return (*timeline, *_that_fit(ordered, names.ROLE_STAGE, room))


def to_prune(situation: Situation) -> tuple[Ref, ...]:
    """What a finished run does not keep, the last of each kind first."""
    children = {c.name: c for c in _result_objects(situation) if not c.deleting}
    stay = {s.name for s in kept(map(_of_object, children.values()))}
    go = sorted(children.keys() - stay, key=_in_order, reverse=True)
    return tuple(ref_to(situation.world, children[name]) for name in go)


def pruned(situation: Situation, stored_now: Iterable[Manifest]) -> list[Truncated]:
    """What will be missing of the records that there are, once this run has ended."""
    objects = (*map(_of_object, _result_objects(situation)), *map(_of_manifest, stored_now))
    stored = {s.name: s for s in objects}
    stay = kept(stored.values())
    records = sum(s.role == names.ROLE_STAGE for s in stay)
    chunks, all_chunks = (sum(s.role == names.ROLE_TIMELINE for s in some) for some in (stay, stored.values()))
    notes = [("records", len(situation.known), records), ("timeline", all_chunks, chunks)]
    return [Truncated(field=field, total=total, included=here) for field, total, here in notes if here < total]


def _result_objects(situation: Situation) -> list[Child]:
    return [c for c in situation.children.objects if c.role in RESULTS]


def _in_order(name: str) -> tuple[int, str]:
    """Stage 10 comes after stage 9."""
    return len(name), name


def _that_fit(ordered: Sequence[Stored], role: str, room: int) -> list[Stored]:
    return as_many_as_fit((s for s in ordered if s.role == role), lambda s: s.size_bytes, room)


def _of_object(child: Child) -> Stored:
    return Stored(child.name, child.role, child.stored_bytes)


def _of_manifest(manifest: Manifest) -> Stored:
    meta = manifest["metadata"]
    size = int(meta["annotations"][names.ANNOTATION_BYTES])
    return Stored(meta["name"], meta["labels"][names.LABEL_ROLE], size)
