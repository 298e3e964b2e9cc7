"""Look-ups that read from the cluster: logs, events, the pods of an endpoint, the GPU exporter of a node."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchrun.decide.collected import (
    Arrival,
    Compilations,
    EndpointPods,
    ExporterPod,
    GpuExporter,
    LogTail,
    ServerStart,
    Start,
)
from benchrun.decide.decision import GpuExporters
from benchrun.effects.errors import ClusterError
from benchrun.effects.judge_child import JudgeChild
from benchrun.effects.kubernetes_api import Cluster
from benchrun.measure.exposition import Sample
from benchrun.observe.trim import image_pull_seconds
from benchrun.observe.views import Children, Run
from benchrun.observe.vllm_log import StartupPhases, compilations, startup_phases

# ---- tools ------------------------------------------------------------------------------------------------------------
# What look-ups work with, and what is said of each kind.


class NotFoundOut(Exception):
    """A look-up came to nothing; the text says why."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The outside world."""

    cluster: Cluster
    judge: JudgeChild
    exporters: GpuExporters | None = None


@dataclass(frozen=True, slots=True)
class About:
    """The run that is asked about, as it was at that moment."""

    run: Run
    children: Children
    arrivals: tuple[Arrival, ...] = ()
    """Records that are not known to be stored."""
    samples: tuple[Sample, ...] = ()
    """Samples that are not stored."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of question is answered."""

    look_up: Callable[[Tools, About, Any], Awaitable[Any]]
    """The answer. Raises ClusterError, or NotFoundOut."""
    seconds: float
    """Longest time that it may take."""
    again_seconds: float | None = None
    """When to try again after it failed, while it is still asked for; None: never."""


# ---- compilations -----------------------------------------------------------------------------------------------------
# When a server compiled kernels while it served, by its log.


async def _compilations(tools: Tools, about: About, question: Compilations) -> tuple[float, ...]:
    text, complete = await tools.cluster.log_since(about.run.namespace, question)
    found = compilations(text, complete=complete)
    if found is None:
        raise NotFoundOut("the log is too long to be read whole, or tells of too many compilations")
    return found


COMPILATIONS = Kind(_compilations, seconds=5.0)


# ---- endpoint pods ----------------------------------------------------------------------------------------------------
# The ready pods behind `endpoint.serviceRef`.

AGAIN_SECONDS = 4.0


async def _endpoint_pods(tools: Tools, about: About, question: EndpointPods) -> tuple[str, ...]:
    found = await tools.cluster.endpoint_addresses(about.run.namespace, question.service, question.port)
    if not found:
        raise NotFoundOut(f"Service {question.service} has no ready pods")
    return found


ENDPOINT_PODS = Kind(_endpoint_pods, seconds=10.0, again_seconds=AGAIN_SECONDS)


# ---- gpu exporter -----------------------------------------------------------------------------------------------------
# The GPU exporter that runs on a node.


async def _gpu_exporter(tools: Tools, _: About, question: GpuExporter) -> ExporterPod:
    found = None if tools.exporters is None else await tools.cluster.exporter_on(tools.exporters, question.node)
    if found is None:
        raise NotFoundOut(f"no GPU exporter runs on node {question.node}")
    return found


GPU_EXPORTER = Kind(_gpu_exporter, seconds=10.0)


# ---- log tail ---------------------------------------------------------------------------------------------------------
# The last lines of a failed container's log.


async def _log_tail(tools: Tools, about: About, question: LogTail) -> str:
    return await tools.cluster.log_tail(about.run.namespace, question)


LOG_TAIL = Kind(_log_tail, seconds=10.0)


# ---- server start -----------------------------------------------------------------------------------------------------
# How a server started: the beginning of its log, and its node's events. Each may be missing by itself.

logger = logging.getLogger(__name__)


async def _server_start(tools: Tools, about: About, question: ServerStart) -> Start:
    return Start(await _phases(tools, about, question), await _image_pull(tools, about, question))


async def _phases(tools: Tools, about: About, question: ServerStart) -> StartupPhases:
    try:
        return startup_phases(await tools.cluster.log_head(about.run.namespace, question))
    except ClusterError as error:
        logger.info("%s/%s: the beginning of its log was not read: %s", about.run.namespace, question.pod, error)
        return StartupPhases()


async def _image_pull(tools: Tools, about: About, question: ServerStart) -> float | None:
    try:
        events = await tools.cluster.image_events(about.run.namespace, question)
    except ClusterError as error:
        logger.info("%s/%s: its events were not read: %s", about.run.namespace, question.pod, error)
        return None
    return image_pull_seconds(events, container=question.container)


SERVER_START = Kind(_server_start, seconds=15.0)
