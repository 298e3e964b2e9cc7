"""The ready pods behind `endpoint.serviceRef`."""

from __future__ import annotations

from benchrun.decide.lookups import EndpointPods
from benchrun.effects.lookups.tools import About, Kind, NotFoundOut, Tools

AGAIN_SECONDS = 4.0


async def _look_up(tools: Tools, about: About, question: EndpointPods) -> tuple[str, ...]:
    found = await tools.cluster.endpoint_addresses(about.run.namespace, question.service, question.port)
    if not found:
        raise NotFoundOut(f"Service {question.service} has no ready pods")
    return found


ENDPOINT_PODS = Kind(_look_up, seconds=10.0, again_seconds=AGAIN_SECONDS)
