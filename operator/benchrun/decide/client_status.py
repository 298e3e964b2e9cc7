"""`status.client`: what generated the load."""

from __future__ import annotations

from benchrun.api.status import ClientStatus
from benchrun.decide.situation import Situation


def client_status(situation: Situation) -> ClientStatus | None:
    """The client's image as its pod tells it, and the engine as the first record does; None: nothing was measured."""
    if not situation.collected.records:
        return None
    first, pod = situation.collected.records[0], situation.client_pod
    return ClientStatus(
        image=(pod.image if pod is not None else None) or situation.spec.client.image,
        image_digest=pod.image_digest if pod is not None else None,
        engine=first.engine.name,
        engine_version=first.engine.version,
        shards=first.shards.count if first.shards is not None else None,
    )
