"""`status.servers`: what really ran, kept once the pods are gone, and in at most some kB of what others wrote.

How a server started is asked for once it is healthy, and not at the end: events are gone after an hour, and the beginning of a log
when the log is rotated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from benchrun import names
from benchrun.api import (
    MAX_ADDRESSES,
    BenchmarkRunSpec,
    CompiledKernels,
    ServerStatus,
    Startup,
    Truncated,
    as_many_as_fit,
    size_bytes,
    timestamp,
)
from benchrun.decide.collected import Answers, Compilations, ServerStart, Start
from benchrun.decide.followed import no_telemetry_reason
from benchrun.decide.situation import Situation
from benchrun.measure.exposition import ServerFacts
from benchrun.observe.raw import instant
from benchrun.observe.views import Pod
from benchrun.observe.vllm_log import StartupPhases
from benchrun.plan.roles import main_container, nodes, role_replicas, started_args
from benchrun.plan.vllm_pod import SERVER_CONTAINER

ARGS_BYTES = 4000
REPORTED_BYTES = 4000
"""Four times what vLLM says of itself."""
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


def startups_wanted(situation: Situation, servers: Sequence[ServerStatus]) -> tuple[ServerStart, ...]:
    """The pods that `servers` speak of and whose start nobody has looked at; each once."""
    if situation.status.server_ready_time is None:
        return ()
    unknown = {s.pod for s in servers if s.startup is None}
    return tuple(_start_of(pod) for pod in situation.serving if pod.name in unknown)


def truncations(spec: BenchmarkRunSpec, servers: Iterable[ServerStatus]) -> list[Truncated]:
    """What is missing of the servers' lists. The spec says how long they would be."""
    lists = [(len(started_args(spec, s.role)), len(s.args)) for s in servers if s.args and s.role != names.ROLE_PROXY]
    total, included = max(lists, key=lambda pair: pair[0] - pair[1], default=(0, 0))
    return [Truncated(field="servers[].args", total=total, included=included)] if included < total else []


def _with_compilations(situation: Situation, server: ServerStatus) -> ServerStatus:
    question = compilations_wanted(situation)
    found = None if question is None else situation.collected.answers.value(question)
    if found is None:
        return server
    return server.model_copy(update={"compilations": CompiledKernels(count=len(found), at=list(found))})


def _of_role(situation: Situation, role: str) -> ServerStatus | None:
    old = next((s for s in situation.status.servers if s.role == role), None)
    pods = situation.serving_as(role)
    if old is not None and (situation.is_released or situation.workload(role) is None):
        # Its pods go one after the other; what one of them was asked before may still be answered.
        same = next((pod for pod in pods if pod.name == old.pod), None)
        late = _startup(same, situation.collected.answers) if same is not None else None
        return old if late is None else old.model_copy(update={"startup": late})
    return _of_pods(situation, pods, old) if pods else old


def _of_pods(situation: Situation, pods: Sequence[Pod], old: ServerStatus | None) -> ServerStatus:
    """Of several that should be alike, what the first that answers says; how many servers they are, and what they have
    together."""
    answering = [each for each in pods if each.rank == 0]
    pod = (answering or pods)[0]
    known = old if old is not None and old.pod == pod.name else ServerStatus(role=pod.role)
    facts = situation.collected.facts.get(pod.name) or ServerFacts()
    status, started = situation.status, situation.spec.started
    selected = (started.pod.node_selector if started is not None else None) or {}
    gpu = next((selected[label] for label in GPU_LABELS if label in selected), None)
    return ServerStatus(
        role=pod.role,
        ready=status.server_ready_time is not None,
        pod=pod.name,
        node=pod.node,
        addresses=_addresses(answering, old),
        gpu=gpu,
        gpu_reason=None if gpu is not None else GPU_UNKNOWN,
        replicas=len(answering),
        gpus=sum(each.gpus for each in pods),
        image=pod.image,
        image_digest=pod.image_digest or known.image_digest,
        version=facts.version or known.version,
        kv_cache_tokens=facts.kv_cache_tokens or known.kv_cache_tokens,
        args=as_many_as_fit(pod.args, size_bytes, ARGS_BYTES),
        reported=_reported(facts) or known.reported,
        seconds_to_ready=_seconds(instant(status.scheduled_time), instant(status.server_ready_time)),
        no_gpu_telemetry_reason=no_telemetry_reason(situation, pods),
        compilations=known.compilations,
        startup=_startup(pod, situation.collected.answers) or known.startup,
        restarts=sum(each.restarts for each in pods),
    )


def _endpoint(situation: Situation) -> list[ServerStatus]:
    """Against an endpoint: what its first pod says of itself."""
    old = situation.status.servers[0] if situation.status.servers else ServerStatus(role=names.ROLE_SERVER)
    facts = next(iter(situation.collected.facts.values()), ServerFacts())
    update = {
        "ready": situation.status.server_ready_time is not None,
        "gpu_reason": "an endpoint's pods are not inspected",
        "version": facts.version or old.version,
        "kv_cache_tokens": facts.kv_cache_tokens or old.kv_cache_tokens,
        "reported": _reported(facts) or old.reported,
    }
    return [old.model_copy(update=update)]


def _addresses(pods: Sequence[Pod], old: ServerStatus | None) -> list[str]:
    """Those seen before are kept: pods go one after the other once a run has ended, before it is judged."""
    seen = [*(pod.ip for pod in pods if pod.ip), *(old.addresses if old is not None else ())]
    return list(dict.fromkeys(seen))[:MAX_ADDRESSES]


def _startup(pod: Pod, answers: Answers) -> Startup | None:
    """Where the time went. None: nobody has looked. Of a pod that was started again its first start is not known."""
    answer = answers.of(_start_of(pod))
    if answer is None:
        return None
    found = answer.value or Start(StartupPhases())
    return Startup(
        pod_seconds=None if pod.restarts else _seconds(pod.scheduled_at, pod.started_at),
        image_pull_seconds=found.image_pull_seconds,
        download_seconds=found.phases.download,
        load_seconds=found.phases.load,
        compile_seconds=found.phases.compile,
        warm_up_seconds=found.phases.warm_up,
    )


def _start_of(pod: Pod) -> ServerStart:
    return ServerStart(pod.name, pod.uid, main_container(pod.role))


def _reported(facts: ServerFacts) -> dict[str, str]:
    return dict(as_many_as_fit(facts.reported.items(), lambda pair: sum(map(size_bytes, pair)), REPORTED_BYTES))


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())
