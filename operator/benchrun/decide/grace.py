"""Pods that no node of the cluster could ever take: for a while it is waited for a node that could."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from benchrun.api.conditions import Reason
from benchrun.decide.situation import Situation
from benchrun.observe.views import Diagnosis, Pod


def with_grace(situation: Situation, found: Diagnosis | None, pods: Iterable[Pod]) -> Diagnosis | None:
    """The diagnosis, not terminal as long as an autoscaler may still add the node."""
    if found is None or not found.terminal or found.reason != Reason.UNSCHEDULABLE:
        return found
    if not any(situation.now < end for end in _ends(situation, pods)):
        return found
    seconds = situation.world.context.unschedulable_grace_seconds
    return replace(found, message=f"{found.message} Waiting {seconds} s for such a node to be added.", terminal=False)


def grace_ends(situation: Situation) -> tuple[datetime, ...]:
    """When graces that run now end: nothing else would tell."""
    if situation.begun:
        return ()
    return tuple(
        end for end in _ends(situation, (*situation.client_pods, *situation.server_pods)) if end > situation.now
    )


def _ends(situation: Situation, pods: Iterable[Pod]) -> list[datetime]:
    grace = timedelta(seconds=situation.world.context.unschedulable_grace_seconds)
    waiting = (pod for pod in pods if pod.unschedulable is not None and not pod.deleting)
    return [pod.created_at + grace for pod in waiting if pod.created_at is not None]
