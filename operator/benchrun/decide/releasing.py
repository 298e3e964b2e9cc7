"""What happens between the last record and the judgement: nothing of it may hold the server."""

from __future__ import annotations

import math

from benchrun.api import names
from benchrun.decide.decision import LogRange
from benchrun.decide.instants import instant
from benchrun.decide.situation import Situation
from benchrun.plan.vllm_pod import SERVER_CONTAINER

LOG_MARGIN_SECONDS = 10
"""Clocks of nodes differ."""


def must_read_back(situation: Situation) -> bool:
    """Whether there is something to judge, which is done in a step of its own: by then the server is gone, and all that is
    stored is at hand."""
    return not situation.collected.read_back and bool(situation.known)


def compilation_log(situation: Situation) -> LogRange | None:
    """The log to look for compilations in, as long as the server is there: once, and never an endpoint's. Of several servers
    none is read: what one of them compiled is in no other's log, and one alone would vouch for all."""
    pods, since = situation.serving, instant(situation.status.server_ready_time)
    if situation.collected.log_searched or not situation.server_exists or len(pods) != 1 or since is None:
        return None
    if pods[-1].role != names.ROLE_SERVER or pods[-1].started_at is None:
        return None
    seconds = math.ceil((situation.now - since).total_seconds()) + LOG_MARGIN_SECONDS
    return LogRange(pods[-1].name, SERVER_CONTAINER, since_seconds=max(LOG_MARGIN_SECONDS, seconds))
