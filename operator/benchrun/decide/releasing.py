"""What happens between the last record and the judgement: nothing of it may hold the server."""

from __future__ import annotations

import math

from benchrun.api import names
from benchrun.decide.decision import LogRange
from benchrun.decide.instants import instant
from benchrun.decide.situation import Situation
from benchrun.plan.roles import SERVER_CONTAINER

LOG_MARGIN_SECONDS = 10
"""Clocks of nodes differ."""


def must_read_back(situation: Situation) -> bool:
    """Whether something that is stored is missing for a judgement."""
    return not situation.collected.read_back and len(situation.collected.records) < len(situation.known)


def compilation_log(situation: Situation) -> LogRange | None:
    """The log to look for compilations in, as long as the server is there: once, and never an endpoint's."""
    pods, since = situation.server_pods, instant(situation.status.server_ready_time)
    if situation.collected.log_searched or not situation.server_exists or not pods or since is None:
        return None
    if pods[-1].role != names.ROLE_SERVER or pods[-1].started_at is None:
        return None
    seconds = math.ceil((situation.now - since).total_seconds()) + LOG_MARGIN_SECONDS
    return LogRange(pods[-1].name, SERVER_CONTAINER, since_seconds=max(LOG_MARGIN_SECONDS, seconds))
