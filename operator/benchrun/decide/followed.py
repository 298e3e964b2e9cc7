"""What is to be read from now on: the client's records, the servers' metrics pages, and beside them the page of the exporter that
tells of their GPUs, if the operator was told of one."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun_client.contract import RECORD_PORT

from benchrun import names
from benchrun.decide.collected import EndpointPods, GpuExporter
from benchrun.decide.decision import GpuPage, PullTarget, ScrapeTarget
from benchrun.decide.situation import Situation
from benchrun.observe.views import Pod
from benchrun.plan.client_plan import planned_searches
from benchrun.plan.pods import token_of
from benchrun.plan.roles import nodes
from benchrun.plan.vllm_pod import SERVER_PORT

SEVERAL_NODES = "the GPUs of a server over several nodes are not read"


def scrape_targets(situation: Situation) -> tuple[ScrapeTarget, ...]:
    """Pages of servers that are known to answer. A loading server refuses connections; asking it tells nothing."""
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
            url=f"{_base_url(situation, situation.owner.namespace, pod.name, pod.ip, SERVER_PORT)}/metrics",
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
    """Why there are no figures of GPUs of these servers of one role. None: there are, or nobody asked for any."""
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
    """The page that tells of this pod's GPUs; None: there is none, or nobody knows it yet."""
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
