"""Runs over which no pass can be made: after some failures they are let go by metadata alone, and said to have failed.

Neither spec nor status is read here, nor anything else that the run, its pods or its client could have spoilt.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from benchrun.api import names
from benchrun.api.conditions import Reason, timestamp
from benchrun.decide.decision import Ref
from benchrun.effects.clock import Clock
from benchrun.effects.errors import ClusterError, Invalid
from benchrun.observe.identity import RunKey
from benchrun.observe.trim import is_finished
from benchrun.observe.views import Child
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.passes import Writer
from benchrun.runtime.queue import Later

logger = logging.getLogger(__name__)

MOST_FAILURES = 5
LONGEST_SECONDS = 60.0
"""Whichever comes first, of passes that failed in a row."""
_HOLDERS = ("Deployment", "LeaderWorkerSet", "Job")
_CONDITIONS = {"Complete": "False", "Failed": "True", "Succeeded": "False", "Ready": "False", "Stalled": "True"}


@dataclass(slots=True)
class Failures:
    """Passes that failed in a row."""

    count: int
    since: float


@dataclass(eq=False)
class Poison:
    """Counts failed passes by run, and ends runs that are poison."""

    writer: Writer
    indexes: Indexes
    clock: Clock
    _failures: dict[RunKey, Failures] = field(default_factory=dict)

    def forget(self, key: RunKey) -> None:
        """A pass succeeded, or the run is gone."""
        self._failures.pop(key, None)

    async def lets_go(self, key: RunKey, error: Exception) -> bool:
        """Count a failed pass; True when the run is over because of it. What the API server does not do now is no poison: only
        what it will never do, and what our own code can't."""
        cause = error.__cause__ if isinstance(error, Later) else error
        if isinstance(cause, ClusterError) and not isinstance(cause, Invalid):
            return False
        now = asyncio.get_running_loop().time()
        failures = self._failures.setdefault(key, Failures(0, now))
        failures.count += 1
        if failures.count < MOST_FAILURES and now - failures.since < LONGEST_SECONDS:
            return False
        logger.error("%s: let go after %d failed passes", key, failures.count, exc_info=cause)
        if not await self.let_go(key) or not await self._say(key, cause or error):
            return False
        self.forget(key)
        return True

    async def let_go(self, key: RunKey) -> bool:
        """Whether the deletion of everything that the run holds was asked for."""
        run = self.indexes.run(key)
        if run is None:
            return True
        held = [c for c in self.indexes.children(key).objects if c.owner_uid == run.uid and _is_holder(c)]
        servers_first = sorted(held, key=lambda child: child.kind == "Job")
        failed = await self.writer.delete(Ref(c.kind, key.namespace, c.name, c.uid) for c in servers_first)
        for error in failed:
            logger.warning("%s: something it holds is not deleted yet: %s", key, error)
        return not failed

    async def _say(self, key: RunKey, error: BaseException) -> bool:
        """Whether the status tells that the run has failed. One that has ended already is left as it is."""
        run = self.indexes.run(key)
        if run is None or is_finished(run.status):
            return True
        try:
            minimal = _minimal(type(error).__name__, timestamp(self.clock.now()), run.generation)
            await self.writer.change_status(run, minimal)
        except ClusterError as refused:
            logger.warning("%s: its status is not written yet: %s", key, refused)
            return False
        return True


def _is_holder(child: Child) -> bool:
    return child.kind in _HOLDERS and not child.deleting and child.role in (*names.SERVING_ROLES, names.ROLE_CLIENT)


def _minimal(error: str, now: str, generation: int) -> dict[str, object]:
    """A status that says only this, and is valid whatever stood there before."""
    message = f"the operator could not work on this run ({error}) and let go of its servers; see the operator's log"
    same = {
        "reason": Reason.INTERNAL_ERROR,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": now,
    }
    return {
        "observedGeneration": generation,
        "phase": "Failed",
        "message": message,
        "verdict": "Unknown",
        "completionTime": now,
        "conditions": [{"type": type_, "status": status, **same} for type_, status in _CONDITIONS.items()],
        "live": None,
        "ending": None,
    }
