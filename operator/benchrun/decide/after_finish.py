"""A run that has ended: nothing starts again. What is left over is removed, and in time the run itself."""

from __future__ import annotations

from datetime import timedelta

from benchrun.api.conditions import is_true
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.children import release_all, release_client, release_server
from benchrun.decide.decision import Decision, Ref, World
from benchrun.decide.instants import instant
from benchrun.decide.pruning import to_prune
from benchrun.decide.situation import Situation

CLIENT_LEAVES_SECONDS = 30
"""How long the client may take to end by itself after its last record was acknowledged."""


def after_finish(situation: Situation) -> Decision:
    """Clean up, throw away what is too much to keep, then wait for the TTL if there is one. Nothing changes in the status but the
    generation that was seen: tools wait for it, whatever was edited."""
    ended = instant(situation.status.completion_time) or situation.now
    age = situation.now - ended
    client = release_client(situation)
    leaves_by_itself = is_true(situation.status.conditions, "Complete") and age < timedelta(
        seconds=CLIENT_LEAVES_SECONDS
    )
    delete: tuple[Ref, ...] = (*release_server(situation), *to_prune(situation))
    waits: list[float] = []
    if client and leaves_by_itself:
        waits.append(CLIENT_LEAVES_SECONDS - age.total_seconds())
    else:
        delete += client
    ttl = situation.spec.ttl_seconds_after_finished
    expired = ttl is not None and age >= timedelta(seconds=ttl)
    if ttl is not None and not expired:
        waits.append(ttl - age.total_seconds())
    return Decision(
        status=situation.status.model_copy(update={"observed_generation": situation.world.run.generation}),
        delete=delete,
        forget=True,
        delete_run=expired,
        requeue_after_seconds=min(waits, default=None),
    )


def after_unreadable_finish(world: World, status: BenchmarkRunStatus) -> Decision:
    """The same of a run whose spec can't be read (any more)."""
    seen = status.model_copy(update={"observed_generation": world.run.generation})
    return Decision(status=seen, delete=release_all(world), forget=True)
