"""When a server compiled kernels while it served, by its log."""

from __future__ import annotations

from benchrun.decide.lookups import Compilations
from benchrun.effects.lookups.tools import About, Kind, NotFoundOut, Tools
from benchrun.observe.compilations import compilations


async def _look_up(tools: Tools, about: About, question: Compilations) -> tuple[float, ...]:
    text, complete = await tools.cluster.log_since(about.run.namespace, question)
    found = compilations(text, complete=complete)
    if found is None:
        raise NotFoundOut("the log is too long to be read whole, or tells of too many compilations")
    return found


COMPILATIONS = Kind(_look_up, seconds=5.0)
