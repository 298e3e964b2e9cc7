"""Find servers that are no longer needed, from the run and its servers alone.

This is for namespaces whose pods, Jobs or records could not be read.
"""

from datetime import datetime, timedelta

from benchrun.api import BenchmarkRunStatus, has_ended, read_leniently
from benchrun.decide.create_and_release import release_servers
from benchrun.decide.decision import Facts, Ref
from benchrun.decide.run_state import Unacceptable, accept
from benchrun.observe import instant


def unneeded_servers(facts: Facts) -> tuple[Ref, ...]:
    """Return the servers of a run that ends, has ended, is cancelled, was evicted, or is late."""
    status = read_leniently(BenchmarkRunStatus, facts.run.status)
    is_evicted = status.queue is not None and status.queue.evicted_time is not None
    ends = status.ending is not None or status.server_released_time is not None
    ends = ends or is_evicted
    is_cancelled = facts.run.spec.get("cancel") is True
    if facts.run.deleting or has_ended(status.conditions) or ends or is_cancelled:
        return release_servers(facts)
    return release_servers(facts) if _is_late(facts, status) else ()


def _is_late(facts: Facts, status: BenchmarkRunStatus) -> bool:
    ready = instant(status.server_ready_time)
    scheduled = instant(status.scheduled_time)
    if _passed(scheduled, facts.context.max_hold_seconds, facts.now):
        return True
    try:
        spec = accept(facts.run, begun=True)
    except Unacceptable:
        return False
    if ready is None:
        return _passed(scheduled, spec.startup_deadline_seconds, facts.now)
    return _passed(ready, spec.run_deadline_seconds, facts.now)


def _passed(since: datetime | None, seconds: int, now: datetime) -> bool:
    """Return whether `seconds` have passed since the instant; 0 means no limit."""
    return (
        since is not None
        and seconds > 0
        and now >= since + timedelta(seconds=seconds)
    )
