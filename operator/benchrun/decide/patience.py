"""How long to wait for a problem that may go away by itself, from when it was first seen.

For example, a node that fits may be added, a missing class may be created, a webhook may answer
again, or a quota may get room for records. No object shows since when something is missing. So this
instant is noted in the status, and kept as long as the same thing is missing.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from benchrun.api import Blocked, timestamp
from benchrun.decide.run_state import RunState
from benchrun.observe import Diagnosis, Patience, instant

# seconds after a ruling: what is missing may be about to be created
REFUSED_SECONDS = 60
RETRIED_SECONDS = 600
"""Seconds without an answer: an API server, or a webhook, that restarts takes minutes."""
# seconds with records that can't be stored, once everything is measured
RECORDS_SECONDS = 600
By = Literal["Node", "Refusal", "Records"]
# A ruling after a missing answer is the same refusal: a run that flaps between the two would never
# end.
_BY: dict[Patience, By] = {
    Patience.NODE: "Node",
    Patience.REFUSED: "Refusal",
    Patience.RETRIED: "Refusal",
}


def blocked_by(
    state: RunState, found: Iterable[Diagnosis | None]
) -> Blocked | None:
    """Return why and since when the run waits, by the first diagnosis with a time limit.

    Return None if no diagnosis has a time limit.
    """
    first = next(
        (d.patience for d in found if d is not None and d.patience is not None),
        None,
    )
    return None if first is None else blocked(state, _BY[first])


def blocked(state: RunState, by: By) -> Blocked:
    """Return since when `by` keeps the run waiting: the instant in the status, else now."""
    return Blocked(by=by, since=timestamp(_since(state, by)))


def lasted(state: RunState, by: By, seconds: int) -> bool:
    """Return whether `by` has kept the run waiting for at least `seconds`."""
    return state.now >= _since(state, by) + timedelta(seconds=seconds)


def with_patience(state: RunState, found: Diagnosis | None) -> Diagnosis | None:
    """Return the diagnosis, terminal if its time limit has passed.

    Before that it is not terminal, and its message says how long the run waits. A diagnosis without
    a time limit is returned unchanged.
    """
    if found is None or found.patience is None:
        return found
    seconds = _seconds(state, found.patience)
    if seconds is not None and lasted(state, _BY[found.patience], seconds):
        return replace(found, terminal=True)
    message = f"{found.message} {_until(state, found.patience, seconds)}"
    return replace(found, terminal=False, message=message)


def patience_ends(
    state: RunState, found: Iterable[Diagnosis | None]
) -> tuple[datetime, ...]:
    """Return the instants at which these diagnoses would end the run."""
    waits = [d.patience for d in found if d is not None and d.patience is not None]
    known = ((_since(state, _BY[each]), _seconds(state, each)) for each in waits)
    return tuple(
        since + timedelta(seconds=seconds)
        for since, seconds in known
        if seconds is not None
    )


def _seconds(state: RunState, patience: Patience) -> int | None:
    """Return the seconds that the run waits; None if only a deadline of the spec bounds them."""
    if patience == Patience.REFUSED:
        return REFUSED_SECONDS
    if patience == Patience.RETRIED:
        return RETRIED_SECONDS
    if state.spec.pending_deadline_seconds:
        return None
    return state.facts.context.unschedulable_grace_seconds


def _until(state: RunState, patience: Patience, seconds: int | None) -> str:
    if patience != Patience.NODE:
        return f"The run ends if this lasts for {seconds} s."
    if seconds is None:
        seconds = state.spec.pending_deadline_seconds
        return f"The run waits {seconds} s (pendingDeadlineSeconds) for such a node to be added."
    return f"The run waits {seconds} s for such a node to be added."


def _since(state: RunState, by: By) -> datetime:
    """Return since when `by` keeps the run waiting, never later than now.

    The status may hold an instant in the future, from a clock that was ahead; such an instant must
    not postpone the end of the run.
    """
    known = state.blocked
    since = instant(known.since) if known is not None and known.by == by else None
    return state.now if since is None else min(since, state.now)
