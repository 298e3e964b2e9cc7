"""Keeping what was measured: records and timeline into ConfigMaps, then word to the client."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.decide.deadlines import deadlines
from benchrun.decide.decision import Manifest
from benchrun.decide.refused import results_refused
from benchrun.decide.situation import Situation
from benchrun.measure.timeline import bucket_size, bucketed, encode
from benchrun.plan.stored import log_config_map, stage_config_map, timeline_config_map

CHUNK_SECONDS = 60.0
"""The timeline within a stage is kept at least this often: what a dead operator can lose."""


def to_store(situation: Situation) -> tuple[Manifest, ...]:
    """ConfigMaps to write now. The timeline goes with the first new record, or alone when a stage is long."""
    samples = situation.collected.unstored_samples
    fresh = sorted(
        (a for a in situation.collected.arrivals if a.sequence not in situation.stored), key=lambda a: a.sequence
    )
    if fresh:
        return tuple(
            stage_config_map(
                situation.owner,
                sequence=arrival.sequence,
                digest=arrival.digest,
                record=arrival.data,
                timeline=_packed(situation) if samples and position == 0 else None,
                ends_search=arrival.ends_search,
            )
            for position, arrival in enumerate(fresh)
        )
    if samples and situation.now.timestamp() - samples[0].at >= CHUNK_SECONDS:
        chunk = situation.collected.timeline_chunks
        return (timeline_config_map(situation.owner, chunk=chunk, timeline=_packed(situation)),)
    return ()


def worth_waiting_to_store(situation: Situation) -> bool:
    """What was measured is refused, by a quota say, and may still be taken: until the run's deadline."""
    refused = situation.collected.refused_object
    if refused is None or not results_refused(situation) or not refused.curable:
        return False
    return not any(d.reason == Reason.RUN_DEADLINE and d.passed(situation.now) for d in deadlines(situation))


def last_to_store(situation: Situation) -> tuple[Manifest, ...]:
    """At the end of a run: what can't be stored keeps nobody from the results."""
    return () if results_refused(situation) else (*to_store(situation), *_log_told(situation))


def _log_told(situation: Situation) -> tuple[Manifest, ...]:
    """Once, and only where the log could be read: the server it came from is gone by then."""
    told = situation.collected.compilations
    return () if told is None else (log_config_map(situation.owner, compilations=told),)


def _packed(situation: Situation) -> bytes:
    """What was read since the last chunk, coarser the longer the run has been."""
    unstored = situation.collected.unstored_samples
    taken_before = len(situation.collected.samples) - len(unstored)
    return encode(bucketed(unstored, bucket_size(taken_before)))


def to_acknowledge(situation: Situation, stored_now: tuple[Manifest, ...]) -> int | None:
    """Through which record everything will be stored once `stored_now` is written. Nothing is said twice in a pass for nothing."""
    progress = situation.collected.progress
    if progress is None or not situation.client_runs or not (situation.collected.arrivals or stored_now):
        return None
    return next(n for n in range(situation.most_stages + 1) if n not in situation.known) or None
