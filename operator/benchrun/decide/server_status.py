"""Which endpoints of a run to read from now on, and `status.servers`: which servers really ran.

How a server started is queried as soon as it is healthy: events are deleted after an hour, and the
beginning of a log is lost when the log is rotated.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from benchrun_client.contract import RECORD_PORT, FilesStart
from benchrun_client.engines import StartupPhases

from benchrun import api, names
from benchrun.decide import decision
from benchrun.decide.run_state import RunState
from benchrun.measure import ServerFacts
from benchrun.observe import Pod, instant, main_container, seconds_between
from benchrun.plan import (
    applied_fields,
    nodes,
    planned_searches,
    role_replicas,
    started_args,
)

SEVERAL_NODES = "GPU figures are not read for a server that spans several nodes"


def scrape_targets(state: RunState) -> tuple[decision.ScrapeTarget, ...]:
    """Return the metrics endpoints of servers that are known to answer.

    A loading server refuses connections.
    """
    if state.status.server_ready_time is None or state.all_known:
        return ()
    interval = state.spec.measurement.scrape_interval_seconds
    engine = state.spec.engine
    path = engine.metrics_path
    if state.spec.endpoint is not None:
        addresses = endpoint_addresses(state)
        return tuple(
            decision.ScrapeTarget(
                engine, names.ROLE_SERVER, a, f"http://{a}{path}", interval
            )
            for a in addresses
        )
    return tuple(
        decision.ScrapeTarget(
            engine=engine,
            role=pod.role,
            pod=pod.name,
            url=f"{_base_url(state, state.owner.namespace, pod.name, pod.ip, engine.port)}{path}",
            interval_seconds=interval,
            exporters=tuple(_exporter_endpoints(state, pod)),
        )
        for pod in state.server_pods
        # A proxy has none of the engine's series; its own the client reads at the edges. Only the
        # first pod of a server has a port.
        if pod.role != names.ROLE_PROXY and pod.rank == 0
        if pod.ip is not None and pod.phase == "Running" and not pod.deleting
    )


def pull_target(state: RunState) -> decision.PullTarget | None:
    """Return the client to poll, from the moment its process runs; None if it does not run.

    It is polled before it is ready, because it may already report a problem.
    """
    if (pod := state.client_pod) is None or not state.client_runs:
        return None
    return decision.PullTarget(
        pod=pod.name,
        url=_base_url(state, state.owner.namespace, pod.name, pod.ip, RECORD_PORT),
        run_uid=state.owner.uid,
        from_sequence=state.stored_prefix(),
        token=state.token,
        plan_digest=state.plan_digest,
        stage_ids=state.planned,
        searches=planned_searches(state.owner, state.spec),
        repeated=state.repeated,
    )


def endpoint_pods(
    state: RunState,
) -> decision.EndpointPods | decision.LabelledPods | None:
    """Return the query for the pods whose metrics are read; None if the operator reads none.

    These are the pods that the spec names by labels, else those behind the measured Service.
    """
    if (endpoint := state.spec.endpoint) is None:
        return None
    if (metrics := endpoint.metrics) is not None:
        if (pods := metrics.pods) is None:
            return None
        return decision.LabelledPods(tuple(sorted(pods.labels.items())), pods.port)
    if endpoint.service_ref is None:
        return None
    return decision.EndpointPods(
        endpoint.service_ref.name, endpoint.service_ref.port
    )


def endpoint_addresses(state: RunState) -> tuple[str, ...]:
    """Return the known addresses of the pods whose metrics are read, as host:port."""
    return state.collected.answers.value(endpoint_pods(state)) or ()


def exporters_wanted(state: RunState) -> tuple[decision.Exporter, ...]:
    """Return the exporters of the servers' nodes, once there is something to measure."""
    pods = (pod for pod in state.serving if pod.role != names.ROLE_PROXY)
    return tuple(
        dict.fromkeys(
            exporter for pod in pods for exporter in _exporters_of(state, pod)
        )
    )


def _exporters_of(state: RunState, pod: Pod) -> list[decision.Exporter]:
    """Return the exporters that may have figures of this pod.

    The exporter of GPU figures is included only if the pod has GPUs.
    """
    if (
        state.status.server_ready_time is None
        or pod.node is None
        or nodes(state.spec) > 1
    ):
        return []
    return [
        decision.Exporter(kind, pod.node)
        for kind in state.facts.context.exporters
        if pod.gpus or kind != "gpu"
    ]


def no_telemetry_reason(state: RunState, pods: Sequence[Pod]) -> str | None:
    """Return why these servers of one role have no GPU figures.

    None if they have figures, or no exporter of GPU figures is configured.
    """
    with_gpus = [pod for pod in pods if pod.gpus]
    if "gpu" not in state.facts.context.exporters or not with_gpus:
        return None
    if nodes(state.spec) > 1:
        return SEVERAL_NODES
    answers = state.collected.answers
    found = (
        (pod.node, answers.of(decision.Exporter("gpu", pod.node)))
        for pod in with_gpus
        if pod.node is not None
    )
    alone = next(
        (
            node
            for node, answer in found
            if answer is not None and answer.value is None
        ),
        None,
    )
    if alone is not None:
        return f"no GPU exporter runs on node {alone}: install one there"
    troubles = state.collected.exporter_troubles
    return next(
        (why for pod in with_gpus if (why := troubles.get(("gpu", pod.name)))), None
    )


def _exporter_endpoints(
    state: RunState, pod: Pod
) -> Iterator[decision.ExporterEndpoint]:
    for exporter in _exporters_of(state, pod):
        if (found := state.collected.answers.value(exporter)) is not None:
            exporters = state.facts.context.exporters[exporter.kind]
            url = (
                f"{_base_url(state, exporters.namespace, found.name, found.ip, exporters.port)}"
                "/metrics"
            )
            yield decision.ExporterEndpoint(
                exporter.kind, url, namespace=state.owner.namespace
            )


def _base_url(
    state: RunState, namespace: str, pod: str, ip: str | None, port: int
) -> str:
    """Return where the pod's port is reached: at its address, or by a path of the API server."""
    if state.facts.context.pod_road == "Proxy":
        return f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy"
    host = f"[{ip}]" if ip is not None and ":" in ip else ip
    return f"http://{host}:{port}"


ARGS_BYTES = 4000
# most bytes of what a server reports of itself: four times vLLM's
REPORTED_BYTES = 4000
# tolerated difference between the clocks of nodes
CLOCK_MARGIN = timedelta(seconds=10)
GPU_UNKNOWN = (
    "no nodeSelector names the GPU model, and the operator may not read nodes: set one in "
    "server.pod.nodeSelector"
)
# Labels of nodes that name the kind of their GPUs: a pod that selects one runs on no other.
GPU_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "amd.com/gpu.product-name",
)


def server_statuses(state: RunState) -> list[api.ServerStatus]:
    """Return one entry per serving role.

    An entry keeps its values when the pod is gone, to show which server was measured.
    """
    if state.spec.started is None:
        return _endpoint(state)
    known = [
        server
        for role in state.server_roles
        if (server := _of_role(state, role)) is not None
    ]
    if (
        found := state.collected.answers.value(compilations_wanted(state))
    ) is None or len(known) > 1:
        return known
    compiled = api.CompiledKernels(count=len(found), at=list(found))
    return [
        server.model_copy(update={"compilations": compiled}) for server in known
    ]


def compilations_wanted(state: RunState) -> decision.Compilations | None:
    """Return the log to search for compilations, once all is measured and the server goes.

    None for an endpoint, for an engine whose log does not show compilations, and for several
    servers: each log shows only the compilations of its own server.
    """
    ready = state.status.server_ready_time
    one = role_replicas(state.spec) == {names.ROLE_SERVER: 1}
    if not state.all_measured or ready is None or not one or nodes(state.spec) > 1:
        return None
    engine = state.spec.engine
    if engine.compilations is None:
        return None
    server = next(iter(state.status.servers), None)
    if server is None or server.pod is None or server.compilations is not None:
        return None
    since = instant(ready) or state.now
    return decision.Compilations(
        server.pod,
        names.SERVER_CONTAINER,
        api.timestamp(since - CLOCK_MARGIN),
        engine,
    )


def startups_wanted(
    state: RunState, servers: Sequence[api.ServerStatus]
) -> tuple[decision.ServerStart, ...]:
    """Return a query for each pod in `servers` whose start is not known yet."""
    if state.status.server_ready_time is None:
        return ()
    unknown = {s.pod for s in servers if s.startup is None}
    return tuple(
        _start_of(state, pod) for pod in state.serving if pod.name in unknown
    )


def truncations(
    spec: api.BenchmarkRunSpec, servers: Iterable[api.ServerStatus]
) -> list[api.Truncated]:
    """Return how many of a server's arguments the status leaves out, where it leaves out most."""
    lists = [
        (len(started_args(spec, s.role)), len(s.args))
        for s in servers
        if s.args and s.role != names.ROLE_PROXY
    ]
    total, included = max(lists, key=lambda pair: pair[0] - pair[1], default=(0, 0))
    return (
        [api.Truncated(field="servers[].args", total=total, included=included)]
        if included < total
        else []
    )


def _of_role(state: RunState, role: str) -> api.ServerStatus | None:
    old = next((s for s in state.status.servers if s.role == role), None)
    pods = state.serving_as(role)
    if old is not None and (state.is_released or state.workload(role) is None):
        # Its pods go one after the other; a query about one of them may still be answered.
        same = next((pod for pod in pods if pod.name == old.pod), None)
        late = _startup(state, same) if same is not None else None
        if same is None or late is None:
            return old
        reported = old.reported | _chosen(state, same)
        return old.model_copy(update={"startup": late, "reported": reported})
    return _of_pods(state, pods, old) if pods else old


def _of_pods(
    state: RunState, pods: Sequence[Pod], old: api.ServerStatus | None
) -> api.ServerStatus:
    """Build the entry of a role from its pods, which should be alike.

    It holds the values of the first pod that answers, the number of pods that answer, and the sums
    over all pods.
    """
    answering = [each for each in pods if each.rank == 0]
    pod = (answering or pods)[0]
    known = (
        old
        if old is not None and old.pod == pod.name
        else _nothing_known(state, pod.role)
    )
    facts = state.collected.server_facts.get(pod.name) or ServerFacts()
    status = state.status
    started = state.effective.started
    given = next((p for p in state.placements if p.role == pod.role), None)
    selected = {
        **(given.node_selector if given is not None else {}),
        **((started.pod.node_selector if started is not None else None) or {}),
    }
    # Addresses seen before are kept: pods go one after the other once a run has ended, before it is
    # judged.
    addresses = [
        *(each.ip for each in answering if each.ip),
        *(old.addresses if old is not None else ()),
    ]
    gpu = next((selected[label] for label in GPU_LABELS if label in selected), None)
    return api.ServerStatus(
        role=pod.role,
        engine=state.spec.engine_name,
        ready=status.server_ready_time is not None,
        pod=pod.name,
        node=pod.node,
        addresses=list(dict.fromkeys(addresses))[: api.MAX_ADDRESSES],
        gpu=gpu,
        gpu_reason=None if gpu is not None else GPU_UNKNOWN,
        replicas=len(answering),
        gpus=sum(each.gpus for each in pods),
        image=pod.image,
        image_digest=pod.image_digest or known.image_digest,
        version=facts.version or known.version,
        kv_cache_tokens=facts.kv_cache_tokens or known.kv_cache_tokens,
        args=api.as_many_as_fit(
            pod.args, lambda arg: len(arg.encode()), ARGS_BYTES
        ),
        reported=known.reported | _reported(facts) | _chosen(state, pod),
        defaults=applied_fields(state.spec, pod.role, state.applied),
        seconds_to_ready=seconds_between(
            instant(status.scheduled_time), instant(status.server_ready_time)
        ),
        no_gpu_telemetry_reason=no_telemetry_reason(state, pods),
        compilations=known.compilations,
        startup=_startup(state, pod) or known.startup,
        restarts=sum(each.restarts for each in pods),
    )


def _nothing_known(state: RunState, role: str) -> api.ServerStatus:
    return api.ServerStatus(role=role, engine=state.spec.engine_name)


def _endpoint(state: RunState) -> list[api.ServerStatus]:
    old = (
        state.status.servers[0]
        if state.status.servers
        else _nothing_known(state, names.ROLE_SERVER)
    )
    facts = next(iter(state.collected.server_facts.values()), ServerFacts())
    update = {
        "ready": state.status.server_ready_time is not None,
        "gpu_reason": "the operator reads no GPU figures of an endpoint's pods",
        "version": facts.version or old.version,
        "kv_cache_tokens": facts.kv_cache_tokens or old.kv_cache_tokens,
        "reported": _reported(facts) or old.reported,
    }
    return [old.model_copy(update=update)]


def _startup(state: RunState, pod: Pod) -> api.Startup | None:
    """Return where the time of the pod's start went; None if it was not queried.

    The first start of a pod that has restarted is not known.
    """
    if (answer := state.collected.answers.of(_start_of(state, pod))) is None:
        return None
    found = answer.value or decision.Start(StartupPhases())
    return api.Startup(
        pod_seconds=None
        if pod.restarts
        else seconds_between(pod.scheduled_at, pod.started_at),
        image_pull_seconds=found.image_pull_seconds,
        download_seconds=found.phases.download,
        load_seconds=found.phases.load,
        compile_seconds=found.phases.compile,
        warm_up_seconds=found.phases.warm_up,
        model=None if state.status.model is None else state.status.model.start,
        compiled=_compiled(state, found.phases),
    )


def _compiled(state: RunState, phases: StartupPhases) -> FilesStart | None:
    started = state.effective.started
    if started is None or not started.compile_cache_claim:
        return None
    known: dict[bool | None, FilesStart] = {True: "Warm", False: "Cold"}
    return known.get(phases.from_cache)


def _chosen(state: RunState, pod: Pod) -> dict[str, str]:
    found = state.collected.answers.value(_start_of(state, pod))
    return {} if found is None else dict(found.phases.chosen)


def _start_of(state: RunState, pod: Pod) -> decision.ServerStart:
    return decision.ServerStart(
        pod.name, pod.uid, main_container(pod.role), state.spec.engine
    )


def _reported(facts: ServerFacts) -> dict[str, str]:
    return dict(
        api.as_many_as_fit(
            facts.reported.items(),
            lambda pair: len("".join(pair).encode()),
            REPORTED_BYTES,
        )
    )
