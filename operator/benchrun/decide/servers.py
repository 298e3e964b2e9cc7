"""A run's servers and client: which endpoints are read from now on, and `status.servers`, what really ran.

How a server started is looked up once it is healthy, and not at the end: events are gone after an hour, and the beginning of a log
when the log is rotated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from benchrun_client.contract import RECORD_PORT
from benchrun_client.engines import ENGINE, StartupPhases

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
from benchrun.decide.situation import Situation
from benchrun.decide.world import (
    Answers,
    Compilations,
    EndpointPods,
    GpuExporter,
    GpuPage,
    PullTarget,
    ScrapeTarget,
    ServerStart,
    Start,
)
from benchrun.measure.exposition import ServerFacts
from benchrun.observe.untrusted_json import instant
from benchrun.observe.view_builders import main_container
from benchrun.observe.views import Pod
from benchrun.plan.client_plan import planned_searches
from benchrun.plan.pods import token_of
from benchrun.plan.roles import nodes, role_replicas, started_args

SEVERAL_NODES = "the GPUs of a server over several nodes are not read"


def scrape_targets(situation: Situation) -> tuple[ScrapeTarget, ...]:
    """Metrics endpoints of servers that are known to answer. A loading server refuses connections."""
    if situation.status.server_ready_time is None or situation.all_known:
        return ()
    interval = situation.spec.measurement.scrape_interval_seconds
    if situation.spec.endpoint is not None:
        addresses = endpoint_addresses(situation)
        return tuple(ScrapeTarget(names.ROLE_SERVER, a, f"http://{a}/metrics", interval) for a in addresses)
    return tuple(
        ScrapeTarget(
            role=pod.role,
            pod=pod.name,
            url=f"{_base_url(situation, situation.owner.namespace, pod.name, pod.ip, ENGINE.port)}{ENGINE.metrics_path}",
            interval_seconds=interval,
            gpus=_gpu_page(situation, pod),
        )
        for pod in situation.server_pods
        # A proxy has none of vLLM's series; its own the client reads at the edges. Only the first pod of a server has a port.
        if pod.role != names.ROLE_PROXY and pod.rank == 0
        if pod.ip is not None and pod.phase == "Running" and not pod.deleting
    )


def pull_target(situation: Situation) -> PullTarget | None:
    """The client, from the moment its process runs: what it has to say before it is ready matters too."""
    pod = situation.client_pod
    if pod is None or not situation.client_runs:
        return None
    job = situation.child("Job", names.ROLE_CLIENT)
    return PullTarget(
        pod=pod.name,
        url=_base_url(situation, situation.owner.namespace, pod.name, pod.ip, RECORD_PORT),
        run_uid=situation.owner.uid,
        from_sequence=situation.stored_prefix(),
        token=token_of(situation.world.context.channel_key, situation.owner.uid),
        plan_digest=job.plan_digest if job is not None else None,
        stage_ids=situation.planned,
        searches=planned_searches(situation.owner, situation.spec),
    )


def endpoint_pods(situation: Situation) -> EndpointPods | None:
    """The question which pods are behind the Service that is measured; None: none is."""
    endpoint = situation.spec.endpoint
    if endpoint is None or endpoint.service_ref is None:
        return None
    return EndpointPods(endpoint.service_ref.name, endpoint.service_ref.port)


def endpoint_addresses(situation: Situation) -> tuple[str, ...]:
    """Their addresses, as host:port, as far as they are known."""
    question = endpoint_pods(situation)
    return () if question is None else situation.collected.answers.value(question) or ()


def exporters_wanted(situation: Situation) -> tuple[GpuExporter, ...]:
    """The exporters of the nodes that the servers run on, once there is something to measure."""
    asked_for = situation.world.context.gpu_exporters is not None and nodes(situation.spec) == 1
    if not asked_for or situation.status.server_ready_time is None:
        return ()
    return tuple(dict.fromkeys(GpuExporter(pod.node) for pod in situation.serving if pod.gpus and pod.node is not None))


def no_telemetry_reason(situation: Situation, pods: Sequence[Pod]) -> str | None:
    """Why there are no figures of GPUs of these servers of one role. None: there are, or none are configured."""
    with_gpus = [pod for pod in pods if pod.gpus]
    if situation.world.context.gpu_exporters is None or not with_gpus:
        return None
    if nodes(situation.spec) > 1:
        return SEVERAL_NODES
    answers = situation.collected.answers
    told = ((pod.node, answers.of(GpuExporter(pod.node))) for pod in with_gpus if pod.node is not None)
    alone = next((node for node, answer in told if answer is not None and answer.value is None), None)
    if alone is not None:
        return f"no exporter runs on node {alone}"
    troubles = situation.collected.gpu_troubles
    return next((troubles[pod.name] for pod in with_gpus if pod.name in troubles), None)


def _gpu_page(situation: Situation, pod: Pod) -> GpuPage | None:
    """The metrics endpoint for this pod's GPUs; None: there is none, or it is not known yet."""
    exporters = situation.world.context.gpu_exporters
    if exporters is None or not pod.gpus or pod.node is None or nodes(situation.spec) > 1:
        return None
    found = situation.collected.answers.value(GpuExporter(pod.node))
    if found is None:
        return None
    url = _base_url(situation, exporters.namespace, found.name, found.ip, exporters.port)
    return GpuPage(f"{url}/metrics", namespace=situation.owner.namespace)


def _base_url(situation: Situation, namespace: str, pod: str, ip: str | None, port: int) -> str:
    """Where the pod's port is reached: at its address, or by a path of the API server."""
    if situation.world.context.pod_road == "Proxy":
        return f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy"
    host = f"[{ip}]" if ip is not None and ":" in ip else ip
    return f"http://{host}:{port}"


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
    return Compilations(server.pod, ENGINE.container, timestamp(since - CLOCK_MARGIN))


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
    """Where the time went. None: it was not looked up. Of a pod that was started again its first start is not known."""
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
