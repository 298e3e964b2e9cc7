"""The last lines of a failed container's log."""

from __future__ import annotations

from benchrun.decide.lookups import LogTail
from benchrun.effects.lookups.tools import About, Kind, Tools


async def _look_up(tools: Tools, about: About, question: LogTail) -> str:
    return await tools.cluster.log_tail(about.run.namespace, question)


LOG_TAIL = Kind(_look_up, seconds=10.0)
