"""Where figures of GPUs come from: the exporter on the node of each server that holds GPUs, if the operator was told of one."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.decide.decision import ExporterPod, GpuExporters, GpuPage
from benchrun.decide.situation import Situation
from benchrun.observe.views import Pod
from benchrun.plan.roles import nodes

SEVERAL_NODES = "the GPUs of a server over several nodes are not read"


def exporters_wanted(situation: Situation) -> tuple[str, ...]:
    """Nodes whose exporter nobody has looked for, once there is something to measure; each once."""
    asked_for = situation.world.context.gpu_exporters is not None and nodes(situation.spec) == 1
    if not asked_for or situation.status.server_ready_time is None:
        return ()
    ran_on = (pod.node for pod in situation.serving if pod.gpus)
    return tuple(dict.fromkeys(n for n in ran_on if n is not None and n not in situation.collected.exporters))


def gpu_page(situation: Situation, pod: Pod) -> GpuPage | None:
    """The page that tells of this pod's GPUs; None: there is none, or nobody knows it yet."""
    exporters = situation.world.context.gpu_exporters
    if exporters is None or not pod.gpus or pod.node is None or nodes(situation.spec) > 1:
        return None
    found = situation.collected.exporters.get(pod.node)
    return None if found is None else GpuPage(_url(situation, exporters, found), namespace=situation.owner.namespace)


def no_telemetry_reason(situation: Situation, pods: Sequence[Pod]) -> str | None:
    """Why there are no figures of GPUs of these servers of one role. None: there are, or nobody asked for any."""
    with_gpus = [pod for pod in pods if pod.gpus]
    if situation.world.context.gpu_exporters is None or not with_gpus:
        return None
    if nodes(situation.spec) > 1:
        return SEVERAL_NODES
    without = {node for node, exporter in situation.collected.exporters.items() if exporter is None}
    alone = next((pod.node for pod in with_gpus if pod.node in without), None)
    if alone is not None:
        return f"no exporter runs on node {alone}"
    troubles = situation.collected.gpu_troubles
    return next((troubles[pod.name] for pod in with_gpus if pod.name in troubles), None)


def _url(situation: Situation, exporters: GpuExporters, found: ExporterPod) -> str:
    if situation.world.context.pod_road == "Proxy":
        return f"/api/v1/namespaces/{exporters.namespace}/pods/{found.name}:{exporters.port}/proxy/metrics"
    host = f"[{found.ip}]" if ":" in found.ip else found.ip
    return f"http://{host}:{exporters.port}/metrics"
