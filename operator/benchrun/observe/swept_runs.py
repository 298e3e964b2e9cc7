"""Runs as their sweep sees them: where each stands, why it failed, and what it held. Reads raw statuses; nothing raises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from benchrun.api.conditions import Reason
from benchrun.observe import raw
from benchrun.observe.views import Run

State = Literal["Running", "Completed", "Failed", "Cancelled"]


@dataclass(frozen=True, slots=True)
class SweptRun:
    """One run of a sweep."""

    name: str
    uid: str
    state: State
    cancelling: bool
    """Whether it was told to end."""
    deleting: bool
    reason: str = ""
    """Why it ended early: the reason of its condition Failed."""
    message: str = ""
    held_seconds: float = 0.0
    """How long a run that has ended held its server: from the server's scheduling to its release."""

    @property
    def ended(self) -> bool:
        """Whether it is over, whichever way."""
        return self.state != "Running"


def swept_runs(runs: Iterable[Run]) -> dict[str, SweptRun]:
    """The runs by name."""
    return {run.name: _swept(run) for run in runs}


def _swept(run: Run) -> SweptRun:
    complete, failed = raw.condition(run.status, "Complete"), raw.condition(run.status, "Failed")
    state: State = "Running"
    if failed.get("status") == "True":
        state = "Cancelled" if failed.get("reason") == Reason.CANCELLED else "Failed"
    elif complete.get("status") == "True":
        state = "Completed"
    early = state in ("Failed", "Cancelled")
    return SweptRun(
        name=run.name,
        uid=run.uid,
        state=state,
        cancelling=run.spec.get("cancel") is True,
        deleting=run.deleting,
        reason=raw.text(failed.get("reason"), 128) if early else "",
        message=raw.text(failed.get("message"), raw.MAX_MESSAGE_CHARS) if early else "",
        held_seconds=_held_seconds(run) if state != "Running" else 0.0,
    )


def _held_seconds(run: Run) -> float:
    since = raw.instant(run.status.get("scheduledTime"))
    until = raw.instant(run.status.get("serverReleasedTime")) or raw.instant(run.status.get("completionTime"))
    return max(0.0, (until - since).total_seconds()) if since is not None and until is not None else 0.0
