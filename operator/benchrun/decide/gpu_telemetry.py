"""Where figures of GPUs come from: the exporter on the node of each server that holds GPUs, if the operator was told of one."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.decide.decision import GpuExporters, GpuPage
from benchrun.decide.lookups import ExporterPod, GpuExporter
from benchrun.decide.situation import Situation
from benchrun.observe.views import Pod
from benchrun.plan.roles import nodes

SEVERAL_NODES = "the GPUs of a server over several nodes are not read"


def exporters_wanted(situation: Situation) -> tuple[GpuExporter, ...]:
    """The exporters of the nodes that the servers run on, once there is something to measure."""
    asked_for = situation.world.context.gpu_exporters is not None and nodes(situation.spec) == 1
    if not asked_for or situation.status.server_ready_time is None:
        return ()
    return tuple(dict.fromkeys(GpuExporter(pod.node) for pod in situation.serving if pod.gpus and pod.node is not None))


def gpu_page(situation: Situation, pod: Pod) -> GpuPage | None:
    """The page that tells of this pod's GPUs; None: there is none, or nobody knows it yet."""
    exporters = situation.world.context.gpu_exporters
    if exporters is None or not pod.gpus or pod.node is None or nodes(situation.spec) > 1:
        return None
    found = situation.collected.answers.value(GpuExporter(pod.node))
    return None if found is None else GpuPage(_url(situation, exporters, found), namespace=situation.owner.namespace)


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


def _url(situation: Situation, exporters: GpuExporters, found: ExporterPod) -> str:
    if situation.world.context.pod_road == "Proxy":
        return f"/api/v1/namespaces/{exporters.namespace}/pods/{found.name}:{exporters.port}/proxy/metrics"
    host = f"[{found.ip}]" if ":" in found.ip else found.ip
    return f"http://{host}:{exporters.port}/metrics"
