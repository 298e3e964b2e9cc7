"""How a server started: the beginning of its log, and its node's events. Each may be missing by itself."""

from __future__ import annotations

import logging

from benchrun.decide.lookups import ServerStart, Start
from benchrun.effects.errors import ClusterError
from benchrun.effects.lookups.tools import About, Kind, Tools
from benchrun.observe.image_pull import image_pull_seconds
from benchrun.observe.startup_log import StartupPhases, startup_phases

logger = logging.getLogger(__name__)


async def _look_up(tools: Tools, about: About, question: ServerStart) -> Start:
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


SERVER_START = Kind(_look_up, seconds=15.0)
