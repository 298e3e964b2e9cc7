"""Reading how a server started: the beginning of its log, and its node's events."""

from __future__ import annotations

import logging

from benchrun.decide.decision import StartupTold, StartupWanted
from benchrun.effects.errors import ClusterError
from benchrun.effects.kubernetes_api import Cluster
from benchrun.observe.image_pull import image_pull_seconds
from benchrun.observe.startup_log import StartupPhases, startup_phases

logger = logging.getLogger(__name__)


async def startup_told(cluster: Cluster, namespace: str, wanted: StartupWanted) -> StartupTold:
    """What can be had. It is nice to know, and a measurement goes on: what can't be read now is not asked for again."""
    return StartupTold(await _phases(cluster, namespace, wanted), await _image_pull(cluster, namespace, wanted))


async def _phases(cluster: Cluster, namespace: str, wanted: StartupWanted) -> StartupPhases:
    try:
        return startup_phases(await cluster.log_head(namespace, wanted))
    except ClusterError as error:
        logger.info("%s/%s: the beginning of its log was not read: %s", namespace, wanted.pod, error)
        return StartupPhases()


async def _image_pull(cluster: Cluster, namespace: str, wanted: StartupWanted) -> float | None:
    try:
        events = await cluster.image_events(namespace, wanted)
    except ClusterError as error:
        logger.info("%s/%s: its events were not read: %s", namespace, wanted.pod, error)
        return None
    return image_pull_seconds(events, container=wanted.container)
