"""The end of a run: its last status, in one write, so that nobody ever sees an end without its results; and what is left after it."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun import names
from benchrun.api import (
    BenchmarkRunStatus,
    ClientStatus,
    Judgement,
    Phase,
    Reason,
    is_true,
    plain_text,
    sentence,
    timestamp,
)
from benchrun.decide import condition_table
from benchrun.decide.children import last_to_store, pruned, release_all, release_client, release_servers, to_prune
from benchrun.decide.condition_table import Row, progress
from benchrun.decide.servers import server_statuses, truncations
from benchrun.decide.situation import Situation
from benchrun.decide.world import Answer, Decision, Ending, Judging, World
from benchrun.observe.untrusted_json import instant

LOG_TAIL_BYTES = 4096
_OF_THE_JUDGEMENT = (
    "client", "cost", "datasets", "results", "searches", "findings", "verdict", "headline", "judge", "comparison",
)  # fmt: skip
CLIENT_LEAVES_SECONDS = 30
"""How long the client may take to end by itself after its last record was acknowledged."""


def judging(situation: Situation, *, ended_early: bool) -> Judging:
    """The judgement of all that was measured."""
    pod = situation.client_pod
    client = ClientStatus(
        image=(pod.image if pod is not None else None) or situation.spec.client.image,
        image_digest=pod.image_digest if pod is not None else None,
    )
    return Judging(ended_early, servers=tuple(server_statuses(situation)), client=client)


def final_status(situation: Situation, end: Ending | None, judged: Answer[Judgement] | None) -> BenchmarkRunStatus:
    """The run as it ended. `judged`: None where nothing was measured."""
    found = (judged.value if judged is not None else None) or Judgement()
    why_not = judged.problem or "unknown" if judged is not None and judged.value is None else None
    if end is None and why_not is None and not found.measured_anything:
        first = found.refused[0] if found.refused else "they are gone"
        end = Ending(Reason.RECORDS_MISSING, f"none of the records can be used: {first}")
    if end is None and found.all_requests_failed:
        answer = f"; the server's answer to one more: {found.diagnostic}" if found.diagnostic else ""
        end = Ending(Reason.ALL_REQUESTS_FAILED, f"every request failed{answer}")
    if end is not None:
        return _ended_early(situation, end, found, why_not)
    if why_not is not None:
        message = f"all {situation.stages_in_words} stages are measured, but not judged: {why_not}. `benchrun judge` can do it later"
        return _measured(situation, message, Reason.NOT_JUDGED, found)
    return _measured(situation, found.message, found.valid_reason, found)


def _measured(situation: Situation, message: str, valid_reason: str, found: Judgement) -> BenchmarkRunStatus:
    comparison, message = found.comparison, sentence(message)
    regressed = (
        (found.not_regressed, found.not_regressed_reason, comparison.message)
        if found.not_regressed is not None and comparison is not None
        else None
    )
    met = found.objectives_met if situation.spec.objectives else None
    rows = condition_table.measured(valid_reason, message, objectives_met=met, not_regressed=regressed)
    return _ended(situation, "Completed", message, rows, found)


def _ended_early(situation: Situation, end: Ending, found: Judgement, why_not: str | None) -> BenchmarkRunStatus:
    message = sentence(end.message if why_not is None else f"{end.message}; what was measured is not judged: {why_not}")
    ended = _ended(situation, end.phase, message, condition_table.ended_early(end.reason, message), found)
    # At most 4 KiB of the log: a status is small.
    log = situation.log_tail
    tail = log.encode()[-LOG_TAIL_BYTES:].decode(errors="ignore") if log else None
    return ended.model_copy(update={"log_tail": plain_text(tail) if tail else None})


def _ended(
    situation: Situation, phase: Phase, message: str, rows: Iterable[Row], found: Judgement
) -> BenchmarkRunStatus:
    servers = server_statuses(situation)
    update = {
        "completion_time": timestamp(situation.now),
        "server_released_time": situation.released_time,
        "servers": servers,
        "progress": progress(situation).model_copy(update={"stage": None}),
        "live": None,
        "ending": None,
        "truncated": [
            *found.truncated,
            *truncations(situation.spec, servers),
            *pruned(situation, last_to_store(situation)),
        ],
        "results_ref": f"{names.LABEL_RUN_UID}={situation.owner.uid}" if situation.known else None,
    }
    judged = {name: getattr(found, name) for name in _OF_THE_JUDGEMENT}
    status = situation.status.model_copy(update=update | judged)
    return condition_table.standing(status, rows, phase, message, of=situation.world.run, now=situation.now)


def after_finish(situation: Situation) -> Decision:
    """A finished run never restarts. Clean up, delete what is too much to keep, then wait for the TTL if there is one. Nothing changes in
    the status but the generation that was seen: tools wait for it, whatever was edited."""
    ended = instant(situation.status.completion_time) or situation.now
    age_seconds = (situation.now - ended).total_seconds()
    client, ttl = release_client(situation), situation.spec.ttl_seconds_after_finished
    leaves_by_itself = is_true(situation.status.conditions, "Complete") and age_seconds < CLIENT_LEAVES_SECONDS
    expired = ttl is not None and age_seconds >= ttl
    waits = [CLIENT_LEAVES_SECONDS - age_seconds] if client and leaves_by_itself else []
    if ttl is not None and not expired:
        waits.append(ttl - age_seconds)
    return Decision(
        status=situation.status.model_copy(update={"observed_generation": situation.world.run.generation}),
        delete=(*release_servers(situation.world), *to_prune(situation), *(() if leaves_by_itself else client)),
        forget=True,
        delete_run=expired,
        requeue_after_seconds=min(waits, default=None),
    )


def after_unreadable_finish(world: World, status: BenchmarkRunStatus) -> Decision:
    """The same of a run whose spec can't be read (any more)."""
    seen = status.model_copy(update={"observed_generation": world.run.generation})
    return Decision(status=seen, delete=release_all(world), forget=True)
