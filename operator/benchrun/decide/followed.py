"""What is to be read from now on: the servers' metrics pages and the client's records."""

from __future__ import annotations

from benchrun_client.contract import RECORD_PORT

from benchrun.api import names
from benchrun.decide.decision import PullTarget, ScrapeTarget
from benchrun.decide.gpu_telemetry import gpu_page
from benchrun.decide.lookups import EndpointPods
from benchrun.decide.situation import Situation
from benchrun.observe.views import Pod
from benchrun.plan.channel import token_of
from benchrun.plan.client_plan import planned_searches
from benchrun.plan.vllm_pod import SERVER_PORT


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
            pod.role, pod.name, f"{_base_url(situation, pod, SERVER_PORT)}/metrics", interval, gpu_page(situation, pod)
        )
        for pod in situation.server_pods
        # A proxy has none of vLLM's series; its own the client reads at the edges. Only the first pod of a server has a port.
        if pod.role != names.ROLE_PROXY
        and pod.rank == 0
        and pod.ip is not None
        and pod.phase == "Running"
        and not pod.deleting
    )


def pull_target(situation: Situation) -> PullTarget | None:
    """The client, from the moment its process runs: what it has to say before it is ready matters too."""
    pod = situation.client_pod
    if pod is None or not situation.client_runs:
        return None
    job = situation.child("Job", names.ROLE_CLIENT)
    return PullTarget(
        pod=pod.name,
        url=_base_url(situation, pod, RECORD_PORT),
        run_uid=situation.owner.uid,
        from_sequence=situation.stored_prefix,
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


def _base_url(situation: Situation, pod: Pod, port: int) -> str:
    """Where the pod's port is reached: at its address, or by a path of the API server."""
    if situation.world.context.pod_road == "Proxy":
        return f"/api/v1/namespaces/{situation.owner.namespace}/pods/{pod.name}:{port}/proxy"
    return f"http://{pod.ip}:{port}"
