"""`status.servers`: what really ran, kept once the pods are gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from benchrun.api import names
from benchrun.api.conditions import timestamp
from benchrun.api.status import MAX_ADDRESSES, CompiledKernels, ServerStatus
from benchrun.decide import bounds
from benchrun.decide.gpu_telemetry import no_telemetry_reason
from benchrun.decide.instants import instant
from benchrun.decide.lookups import Compilations
from benchrun.decide.situation import Situation
from benchrun.decide.startups import startup_of
from benchrun.measure.samples import ServerFacts
from benchrun.observe.views import Pod
from benchrun.plan.roles import nodes, role_replicas
from benchrun.plan.vllm_pod import SERVER_CONTAINER

CLOCK_MARGIN = timedelta(seconds=10)
"""Clocks of nodes differ."""
GPU_UNKNOWN = "no nodeSelector names it, and the operator has no permission to read nodes"
GPU_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
"""Labels of nodes that name the kind of their GPUs: a pod that selects one runs on no other."""


def server_statuses(situation: Situation) -> list[ServerStatus]:
    """One entry a role. What was known stays when its pod is gone: provenance outlives the server."""
    if situation.spec.started is None:
        return _endpoint(situation)
    each = [_of_role(situation, role) for role in situation.server_roles]
    known = [server for server in each if server is not None]
    return [_with_compilations(situation, known[0])] if len(known) == 1 else known


def compilations_wanted(situation: Situation) -> Compilations | None:
    """The log to look for compilations in, once all is measured; never an endpoint's. Of several servers none is read: what one
    of them compiled is in no other's log, and one alone would vouch for all. It is asked for while the server goes: where it
    comes too late, nothing is known of compilations."""
    ready, one = situation.status.server_ready_time, role_replicas(situation.spec) == {names.ROLE_SERVER: 1}
    if not situation.all_known or ready is None or not one or nodes(situation.spec) > 1:
        return None
    server = next(iter(situation.status.servers), None)
    if server is None or server.pod is None or server.compilations is not None:
        return None
    since = instant(ready) or situation.now
    return Compilations(server.pod, SERVER_CONTAINER, timestamp(since - CLOCK_MARGIN))


def _with_compilations(situation: Situation, server: ServerStatus) -> ServerStatus:
    question = compilations_wanted(situation)
    found = None if question is None else situation.collected.answers.value(question)
    if found is None:
        return server
    return server.model_copy(update={"compilations": CompiledKernels(count=len(found), at=list(found))})


def _of_role(situation: Situation, role: str) -> ServerStatus | None:
    old = next((s for s in situation.status.servers if s.role == role), None)
    pods = situation.serving_as(role)
    return _of_pods(situation, pods, old) if pods else old


def _of_pods(situation: Situation, pods: Sequence[Pod], old: ServerStatus | None) -> ServerStatus:
    """Of several that should be alike, what the first that answers says; how many servers they are, and what they have
    together."""
    answering = [each for each in pods if each.rank == 0]
    pod = (answering or pods)[0]
    known = old if old is not None and old.pod == pod.name else None
    facts = situation.collected.facts.get(pod.name) or ServerFacts()
    ready = situation.status.server_ready_time is not None
    selected = (situation.spec.started.pod.node_selector if situation.spec.started is not None else None) or {}
    gpu = next((selected[label] for label in GPU_LABELS if label in selected), None)
    return ServerStatus(
        role=pod.role,
        ready=ready,
        pod=pod.name,
        node=pod.node,
        addresses=_addresses(answering, old),
        gpu=gpu,
        gpu_reason=None if gpu is not None else GPU_UNKNOWN,
        replicas=len(answering),
        gpus=sum(each.gpus for each in pods),
        image=pod.image,
        image_digest=pod.image_digest or (known.image_digest if known else None),
        version=facts.version or (known.version if known else None),
        kv_cache_tokens=facts.kv_cache_tokens or (known.kv_cache_tokens if known else None),
        args=bounds.args(pod.args),
        reported=bounds.reported(facts.reported) or (known.reported if known else {}),
        seconds_to_ready=_seconds(
            instant(situation.status.scheduled_time), instant(situation.status.server_ready_time)
        ),
        no_gpu_telemetry_reason=no_telemetry_reason(situation, pods),
        compilations=known.compilations if known else None,
        startup=startup_of(pod, situation.collected.answers) or (known.startup if known else None),
        restarts=sum(each.restarts for each in pods),
    )


def _addresses(pods: Sequence[Pod], old: ServerStatus | None) -> list[str]:
    """Those seen before are kept: pods go one after the other once a run has ended, before it is judged."""
    seen = [*(pod.ip for pod in pods if pod.ip), *(old.addresses if old is not None else ())]
    return list(dict.fromkeys(seen))[:MAX_ADDRESSES]


def _endpoint(situation: Situation) -> list[ServerStatus]:
    """Against an endpoint: what its first pod says of itself."""
    old = situation.status.servers[0] if situation.status.servers else ServerStatus(role=names.ROLE_SERVER)
    facts = next(iter(situation.collected.facts.values()), ServerFacts())
    return [
        old.model_copy(
            update={
                "ready": situation.status.server_ready_time is not None,
                "gpu_reason": "an endpoint's pods are not inspected",
                "version": facts.version or old.version,
                "kv_cache_tokens": facts.kv_cache_tokens or old.kv_cache_tokens,
                "reported": bounds.reported(facts.reported) or old.reported,
            }
        )
    ]


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())
