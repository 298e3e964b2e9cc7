"""Instants of a run that its status keeps: when it was accepted, had its nodes, was healthy, began to measure.

Deadlines are counted from them: a clock that is ahead would move them away, one that is behind would end a run at once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from benchrun.api.conditions import timestamp
from benchrun.decide.situation import Situation
from benchrun.observe.raw import instant
from benchrun.plan.stages import estimate

_LAST_US = 253_402_300_799_000_000
"""The end of the year 9999: there is no instant after it."""


def noticed(situation: Situation) -> Situation:
    """The situation with the instants that have come to pass; each is noted once and kept. The client's clock is believed only
    between what is known and now: it must not move a deadline."""
    status, heard, now = situation.status, situation.collected.client.progress, situation.now
    instants = [pod.scheduled_at for pod in situation.serving if pod.scheduled_at is not None]
    scheduled = max(instants) if len(instants) == situation.wanted_pods > 0 else None
    accepted = instant(status.accepted_time)
    healthy = began = None
    if heard is not None:
        healthy = believed(from_unix_us(heard.healthy_unix_us), first_seen=now, not_before=scheduled or accepted)
        began = believed(from_unix_us(heard.first_request_unix_us), first_seen=now, not_before=healthy or accepted)
    update = {
        "accepted_time": status.accepted_time or timestamp(now),
        "estimate": status.estimate or estimate(situation.spec),
        "scheduled_time": status.scheduled_time or (timestamp(scheduled) if scheduled is not None else None),
        "server_ready_time": status.server_ready_time or (timestamp(healthy) if healthy is not None else None),
        "start_time": status.start_time or (timestamp(began) if began is not None else None),
    }
    return replace(situation, status=status.model_copy(update=update))


def from_unix_us(micros: int | None) -> datetime | None:
    """Unix microseconds as an instant; None for what is none."""
    return datetime.fromtimestamp(micros / 1e6, tz=UTC) if micros is not None and 0 <= micros <= _LAST_US else None


def believed(claimed: datetime | None, *, first_seen: datetime, not_before: datetime | None) -> datetime | None:
    """What another clock says of something that happened after `not_before` and was heard of at `first_seen`, both by ours."""
    if claimed is None:
        return None
    latest = min(claimed, first_seen)
    return latest if not_before is None else max(latest, min(not_before, first_seen))
