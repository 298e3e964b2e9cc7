"""Keeping what was measured: records and timeline into ConfigMaps, then word to the client."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api import names
from benchrun.api.conditions import Reason
from benchrun.decide.deadlines import deadlines
from benchrun.decide.decision import Manifest
from benchrun.decide.instants import instant
from benchrun.decide.refused import results_refused
from benchrun.decide.situation import Situation
from benchrun.measure.timeline import bucket_size, bucketed, encode
from benchrun.plan.stored import TimelinePart, stage_config_map, timeline_config_map

CHUNK_SECONDS = 120.0
"""The timeline within a stage is kept at least this often: what a dead operator can lose."""


def to_store(situation: Situation) -> tuple[Manifest, ...]:
    """ConfigMaps to write now. The timeline goes with the first new record, or alone when a stage is long."""
    samples = situation.collected.samples.unstored
    fresh = [a for s, a in sorted(situation.collected.arrivals.items()) if s not in situation.stored]
    if fresh:
        return tuple(
            stage_config_map(
                situation.owner, arrival, timeline=_packed(situation) if samples and not position else None
            )
            for position, arrival in enumerate(fresh)
        )
    if samples and situation.now.timestamp() - samples[0].at >= CHUNK_SECONDS:
        return (timeline_config_map(situation.owner, chunk=situation.timeline_chunks, timeline=_packed(situation)),)
    return ()


def worth_waiting_to_store(situation: Situation) -> bool:
    """What was measured is refused, by a quota say, and may still be taken: until the run's deadline."""
    refused = situation.collected.refused_object
    if refused is None or not results_refused(situation) or not refused.curable:
        return False
    return not any(d.reason == Reason.RUN_DEADLINE and d.passed(situation.now) for d in deadlines(situation))


def last_to_store(situation: Situation) -> tuple[Manifest, ...]:
    """At the end of a run: what can't be stored keeps nobody from the results."""
    return () if results_refused(situation) else to_store(situation)


def to_acknowledge(situation: Situation, stored_now: Iterable[Manifest] = ()) -> int | None:
    """Records below this are stored once `stored_now` is written; None: there is nobody to tell, or nothing."""
    if not situation.client_heard or not situation.client_runs:
        return None
    written = {int(m["metadata"]["labels"].get(names.LABEL_SEQUENCE, -1)) for m in stored_now}
    stored = situation.stored | written
    return next(n for n in range(situation.most_stages + 1) if n not in stored) or None


def _packed(situation: Situation) -> TimelinePart:
    """What was sampled since the last chunk, coarser the longer the run has been."""
    samples = situation.collected.samples.unstored
    data = encode(bucketed(samples, bucket_size(_samples_before(situation))))
    return TimelinePart(data, through=max(sample.at for sample in samples))


def _samples_before(situation: Situation) -> int:
    """How many samples the run has taken before these, by its age: a restarted operator has not counted them."""
    samples, ready = situation.collected.samples.unstored, instant(situation.status.server_ready_time)
    if ready is None or not samples:
        return 0
    seconds = max(0.0, samples[0].at - ready.timestamp())
    servers = len({(s.role, s.pod) for s in samples})
    return int(seconds / situation.spec.measurement.scrape_interval_seconds) * servers
