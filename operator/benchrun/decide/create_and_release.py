"""Which objects of a run to create, store, release and prune.

The client is created first and the server when the client is ready, so that no GPU waits.

The ConfigMaps of a finished run take less than 1 MiB together. It keeps its result document, and
the records in the order of the plan, each with its part of the timeline, up to the first one that
does not fit. Timeline chunks take at most half of the room. What does not fit is deleted, the last
ones first.
"""

from collections.abc import Iterable, Sequence

from benchrun_client.contract import digest_of_token

from benchrun import names, plan
from benchrun.api import QueueStatus, Reason, Truncated, as_many_as_fit
from benchrun.child_kinds import KINDS, SERVER_KINDS, WORKLOAD
from benchrun.decide.deadlines import deadlines
from benchrun.decide.decision import RESULT_ROLES, Facts, Manifest, Ref
from benchrun.decide.patience import RECORDS_SECONDS, lasted
from benchrun.decide.refusals import (
    refused_now,
    results_refused,
    seconds_to_store_again,
)
from benchrun.decide.run_state import Possessions, RunState
from benchrun.decide.server_status import endpoint_addresses
from benchrun.measure import bucket_size, bucketed, encode
from benchrun.observe import Child, child_of, instant, untrusted_json as raw
from benchrun.plan import network_policies, queued_workload

_POD_MAKERS = frozenset(name for name, kind in KINDS.items() if kind.has_pods)


def missing_children(state: RunState) -> tuple[Manifest, ...]:
    """Return the manifests of the run's objects that do not exist yet.

    Once the client has found the server ready, nothing more is created: a new object would make the
    measurement invalid.
    """
    if state.begun:
        return ()
    wanted = [*_fence(state), *_client(state), *_server(state)]
    return tuple(
        queued_workload.placed(m, state.placements)
        if m["kind"] in _POD_MAKERS
        else m
        for m in wanted
        if state.children.named(m["kind"], m["metadata"]["name"]) is None
    )


def release_client(state: Possessions) -> tuple[Ref, ...]:
    """Return the client's Job, which is to be deleted; nothing if all its pods have ended.

    An ended client costs nothing, and its logs may be wanted.
    """
    job = state.child("Job", names.ROLE_CLIENT)
    pods = state.client_pods
    if job is None or (
        pods and all(pod.phase in ("Succeeded", "Failed") for pod in pods)
    ):
        return ()
    return (ref_to(state.facts, job),)


def release_servers(facts: Facts) -> tuple[Ref, ...]:
    """Return the objects whose pods are servers and hold GPUs; they are to be deleted.

    Everything else is garbage-collected with the run. An object whose deletion somebody else
    requested is deleted again: a finalizer may keep it, and its pods with it.
    """
    is_released = (
        facts.collected.released_at is not None
        or "serverReleasedTime" in facts.run.status
    )
    ours = (
        c
        for c in facts.children.objects
        if c.owner_uid == facts.run.uid and c.kind in SERVER_KINDS
    )
    return tuple(ref_to(facts, c) for c in ours if not (c.deleting and is_released))


def release_quota(state: Possessions) -> tuple[Ref, ...]:
    """Return the run's Workloads, which are to be deleted, once nothing holds a GPU any more.

    The next in the queue would otherwise find the GPU taken. Where the operator may not use Kueue
    any more, the garbage collector deletes them with the run.
    """
    serving = any(p.role in names.SERVING_ROLES for p in state.children.pods)
    servers = any(c.kind in SERVER_KINDS for c in state.children.objects)
    if serving or servers or not state.facts.context.kueue:
        return ()
    return tuple(
        ref_to(state.facts, c)
        for c in state.children.objects
        if c.kind == WORKLOAD and not c.deleting
    )


def release_all(facts: Facts) -> tuple[Ref, ...]:
    """Return the servers, then the client's Jobs and Workloads, of a run with an invalid spec.

    The run's own objects are recognised by their owner's uid.
    """
    kinds = ("Job", WORKLOAD) if facts.context.kueue else ("Job",)
    others = (
        c
        for c in facts.children.objects
        if c.kind in kinds and c.owner_uid == facts.run.uid and not c.deleting
    )
    return (*release_servers(facts), *(ref_to(facts, c) for c in others))


def ref_to(facts: Facts, child: Child) -> Ref:
    return Ref(
        kind=child.kind,
        namespace=facts.run.namespace,
        name=child.name,
        uid=child.uid,
    )


def _client(state: RunState) -> list[Manifest]:
    """Return the manifests of the plan's ConfigMap, the client's Job and its Service.

    If a plan exists, the Job is made for it, whichever operator wrote it. If only a Job exists, its
    plan is written again only if it would have the same digest.
    """
    owner = state.owner
    spec = state.spec
    job = state.child("Job", names.ROLE_CLIENT)
    stands = state.plan
    meeting = (
        [plan.client_service(owner)]
        if plan.division_of(state.effective).pods > 1
        else []
    )
    if stands is not None and (job is not None or stands.deleting):
        return meeting  # writing a plan of many stages takes long
    if stands is not None:
        return [*meeting, _job(state, stands.plan_digest)]
    given = plan.plan_of_client(
        owner,
        state.effective,
        token_digest=digest_of_token(state.token),
        endpoint_addresses=endpoint_addresses(state),
    )
    config_map = plan.plan_config_map(
        owner, given, spec.chat_template, noted=_noted(state)
    )
    digest = given.digest()
    if job is None:
        return [config_map, *meeting, _job(state, digest)]
    return [config_map, *meeting] if job.plan_digest in (None, digest) else meeting


def workload_to_queue(state: RunState, queue: QueueStatus) -> Manifest:
    """Return the manifest of the Workload that asks for the quota of all the run's pods."""
    makers = [
        _job(state, None),
        *(plan.workload(state.owner, r) for r in _roles(state)),
    ]
    return queued_workload.workload_manifest(
        state.owner,
        queue=queue.name,
        attempt=queue.attempt,
        makers=makers,
        noted=_noted(state),
    )


def _job(state: RunState, plan_digest: str | None) -> Manifest:
    context = state.facts.context
    return plan.client_job(
        state.owner,
        state.spec,
        plan_digest=plan_digest,
        default_image=context.client_image,
        pull_policy=context.client_image_pull_policy,
        max_hold_seconds=context.max_hold_seconds,
        applied=state.applied,
        noted=_noted(state),
    )


def _noted(state: RunState) -> dict[str, str]:
    key = state.facts.context.channel_key
    return plan.noted(state.applied, key=key, run_uid=state.owner.uid)


def _server(state: RunState) -> list[Manifest]:
    """Return the manifests of the servers' Services and workloads.

    The Services come with the client, which resolves their names. The workloads come only when the
    client is ready and has answered this operator: a client that has not answered yet may have
    measured already. With a claim for the model, the client has also said at which commit it is.
    """
    owner = state.owner
    has_client = state.client_ready and state.client_heard and state.model_is_there
    if _has_servers(state, workloads=has_client):
        return []  # a pass that changes nothing builds no pods only to drop them
    started = _roles(state)
    workloads = [plan.workload(owner, role) for role in started if has_client]
    return [*(plan.service(owner, role) for role in started), *workloads]


def _has_servers(state: RunState, *, workloads: bool) -> bool:
    """Return whether the Services of all roles exist, and their workloads if these are wanted."""
    return all(
        state.child("Service", role) is not None
        and (not workloads or state.workload(role) is not None)
        for role in plan.role_replicas(state.served_spec)
    )


def _roles(state: RunState) -> Sequence[plan.Role]:
    """Return the roles of servers that the run starts; none for an endpoint."""
    context = state.facts.context
    return plan.server_roles(
        state.owner,
        state.served_spec,
        client_image=state.spec.client.image or context.client_image,
        pull_policy=context.client_image_pull_policy,
        max_hold_seconds=context.max_hold_seconds,
        applied=state.applied,
    )


def _fence(state: RunState) -> list[Manifest]:
    """Return the NetworkPolicies of the run.

    They are created before the pods and deleted by the garbage collector: if they were deleted
    together with the Deployment, they would be gone before its pods. They would also shut out an
    operator that reaches pods through the API server; such an operator creates them only for
    servers in development mode.
    """
    spec = state.effective
    context = state.facts.context
    for_all = context.network_policies and context.pod_road == "Direct"
    if not for_all and not plan.in_development_mode(spec):
        return []
    namespace = context.operator_namespace
    peers = context.network_policy_peers
    return network_policies.network_policy_manifests(
        state.owner,
        spec,
        operator_namespace=namespace,
        extra_peers=peers,
        servers_only=not for_all,
    )


CHUNK_SECONDS = 240.0
"""Most seconds between two writes of the timeline within a stage. At most these seconds are lost
when the operator dies."""
# Bytes reserved for the plan: the largest one has 256 stages.
PLAN_BYTES = 128 * 1024
RESULT_BYTES = 1024 * 1024 - PLAN_BYTES


def to_store(state: RunState) -> tuple[Manifest, ...]:
    """Return the ConfigMaps to write now.

    The timeline is stored with the first new record, or alone while a stage takes long.
    """
    samples = state.collected.samples.unstored
    fresh = [
        a
        for s, a in sorted(state.collected.arrivals.items())
        if s not in state.stored
    ]
    if fresh:
        chunks = [_packed(state) if samples else None, *[None] * (len(fresh) - 1)]
        return tuple(
            plan.stage_config_map(state.owner, a, timeline=c)
            for a, c in zip(fresh, chunks, strict=True)
        )
    if samples and state.now.timestamp() - samples[0].at >= CHUNK_SECONDS:
        packed = _packed(state)
        return (
            plan.timeline_config_map(
                state.owner, chunk=_next_chunk(state), timeline=packed
            ),
        )
    return ()


def _next_chunk(state: RunState) -> int:
    """Return the number after the highest existing timeline chunk.

    The chunks are not counted, since a deleted chunk leaves a gap.
    """
    run = state.owner.name
    uid = state.owner.uid
    there = (
        names.timeline_chunk(run, uid, child.name)
        for child in state.children.objects
    )
    return max((chunk for chunk in there if chunk is not None), default=-1) + 1


def to_store_now(
    state: RunState, result: plan.PackedResult | None = None
) -> tuple[Manifest, ...]:
    """Return what to write now, or nothing while refused records wait to be tried again."""
    if seconds_to_store_again(state) > 0:
        return ()
    return (*to_store(state), *_result_to_store(state, result))


def _result_to_store(
    state: RunState, result: plan.PackedResult | None
) -> tuple[Manifest, ...]:
    """Return the ConfigMap of the result document, unless it exists or there is no document."""
    if result is None or result_is_stored(state, result):
        return ()
    return (plan.result_config_map(state.owner, result),)


def result_is_stored(state: RunState, result: plan.PackedResult) -> bool:
    """Return whether exactly this result document is in the cluster."""
    name = names.result_name(state.owner.name, state.owner.uid, result.digest)
    there = state.children.named("ConfigMap", name)
    is_ours = there is not None and there.owner_uid == state.owner.uid
    return is_ours and there is not None and there.result_digest == result.digest


def most_chunks(state: RunState) -> int:
    """Return the most timeline chunks that the run can have stored without a record."""
    since = instant(state.status.accepted_time) or state.now
    return 1 + int((state.now - since).total_seconds() / CHUNK_SECONDS)


def worth_waiting_to_store(state: RunState) -> bool:
    """Return whether refused records may still be accepted, so that the run waits before it ends.

    A full quota, for example, may be raised or freed later. The run waits for ten minutes after it
    has all records, and no longer than its deadline.
    """
    refused = refused_now(state)
    if (
        refused is None
        or not results_refused(state)
        or refused.reason == Reason.CHILD_INVALID
    ):
        return False
    is_late = any(
        d.reason == Reason.RUN_DEADLINE and d.passed(state.now)
        for d in deadlines(state)
    )
    return not is_late and not lasted(state, "Records", RECORDS_SECONDS)


def last_to_store(
    state: RunState, result: plan.PackedResult | None = None
) -> tuple[Manifest, ...]:
    """Return the ConfigMaps to write when a run ends; none while the API server refuses records.

    The run then ends without storing them, so that its status still gets its results.
    """
    return (
        ()
        if results_refused(state)
        else (*to_store(state), *_result_to_store(state, result))
    )


def unstored_stages(state: RunState) -> tuple[str, ...]:
    """Return the ids of stages whose record is only in memory and will not be stored.

    Such a record is judged, then lost.
    """
    if not results_refused(state):
        return ()
    arrivals = sorted(state.collected.arrivals.items())
    return tuple(
        arrival.envelope.stage_id
        for s, arrival in arrivals
        if s not in state.stored
    )


def to_acknowledge(
    state: RunState, stored_now: Iterable[Manifest] = ()
) -> int | None:
    """Return n if records 0 .. n-1 are stored once `stored_now` is written.

    Return None if no client runs or nothing is stored.
    """
    if not state.client_heard or not state.client_runs:
        return None
    written = {
        int(m["metadata"]["labels"].get(names.LABEL_SEQUENCE, -1))
        for m in stored_now
    }
    return state.stored_prefix(also=written) or None


def _packed(state: RunState) -> plan.TimelinePart:
    """Return the packed samples since the last chunk, coarser the longer the run has lasted."""
    samples = state.collected.samples.unstored
    ready = instant(state.status.server_ready_time)
    before = 0
    if ready is not None:
        # By the run's age: a restarted operator has not counted the samples before these.
        seconds = max(0.0, samples[0].at - ready.timestamp())
        servers = len({(s.role, s.pod) for s in samples})
        before = (
            int(seconds / state.spec.measurement.scrape_interval_seconds) * servers
        )
    return plan.TimelinePart(
        encode(bucketed(samples, bucket_size(before))),
        through=max(s.at for s in samples),
    )


def kept(stored: Iterable[Child], *, result: str | None) -> tuple[Child, ...]:
    """Return the ConfigMaps that a finished run keeps.

    These are the result document, the timeline and the stages. `result` is the name of the document
    that the status refers to. Other documents come from an operator that could not write the
    status.
    """
    ordered = sorted(stored, key=lambda s: _in_order(s.name))
    document = [
        s for s in ordered if s.role == names.ROLE_RESULT and s.name == result
    ]
    room = RESULT_BYTES - sum(s.stored_bytes for s in document)
    timeline = _that_fit(ordered, names.ROLE_TIMELINE, room // 2)
    room -= sum(s.stored_bytes for s in timeline)
    return (*document, *timeline, *_that_fit(ordered, names.ROLE_STAGE, room))


def awaits_archive(facts: Facts) -> bool:
    """Return whether a finished run is to be kept whole until it is archived."""
    archived = raw.condition(facts.run.status, "Archived")
    return facts.context.archive and archived.get("status") != "True"


def to_prune(state: Possessions) -> tuple[Ref, ...]:
    """Return the ConfigMaps that a finished run does not keep, the last of each kind first."""
    if awaits_archive(state.facts):
        return ()
    children = {c.name: c for c in _result_objects(state) if not c.deleting}
    document = raw.mapping(state.facts.run.status.get("resultDocument"))
    result = raw.text(document.get("configMap")) or None
    stay = {child.name for child in kept(children.values(), result=result)}
    go = sorted(children.keys() - stay, key=_in_order, reverse=True)
    return tuple(ref_to(state.facts, children[name]) for name in go)


def pruned(
    state: RunState, stored_now: Iterable[Manifest], *, result: str | None
) -> list[Truncated]:
    """Return how much of the records and the timeline will be missing once this run has ended.

    `result`: name of the result document that the status will refer to.
    """
    new = (child_of(manifest["kind"], manifest) for manifest in stored_now)
    stored = {child.name: child for child in (*_result_objects(state), *new)}
    stay = kept(stored.values(), result=result)
    records = sum(s.role == names.ROLE_STAGE for s in stay)
    chunks, all_chunks = (
        sum(s.role == names.ROLE_TIMELINE for s in some)
        for some in (stay, stored.values())
    )
    notes = [
        ("records", len(state.known), records),
        ("timeline", all_chunks, chunks),
    ]
    return [
        Truncated(field=field, total=total, included=here)
        for field, total, here in notes
        if here < total
    ]


def _result_objects(state: Possessions) -> list[Child]:
    return [c for c in state.children.objects if c.role in RESULT_ROLES]


def _in_order(name: str) -> tuple[int, str]:
    """Return a sort key that puts stage 10 after stage 9."""
    return len(name), name


def _that_fit(ordered: Sequence[Child], role: str, room: int) -> list[Child]:
    return as_many_as_fit(
        (s for s in ordered if s.role == role), lambda s: s.stored_bytes, room
    )
