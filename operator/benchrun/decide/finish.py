"""The end of a run: its last status, in one write, so that nobody ever sees an end without its results; and what is left after it."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun import api, names
from benchrun.decide import condition_table
from benchrun.decide.condition_table import Row, progress
from benchrun.decide.create_and_release import last_to_store, pruned, release_client, release_servers, to_prune
from benchrun.decide.decision import Answer, Decision, Ending, Judging
from benchrun.decide.run_state import RunState
from benchrun.decide.server_status import server_statuses, truncations
from benchrun.observe import instant

LOG_TAIL_BYTES = 4096
_OF_THE_JUDGEMENT = (
    "client", "cost", "datasets", "results", "searches", "findings", "verdict", "headline", "judge", "comparison",
    "profile",
)  # fmt: skip
CLIENT_LEAVES_SECONDS = 30  # how long the client may take to end by itself after its last record was acknowledged


def judging(state: RunState, *, ended_early: bool) -> Judging:
    """The judgement of all that was measured."""
    pod = state.client_pod
    image, digest = (pod.image, pod.image_digest) if pod is not None else (None, None)
    client = api.ClientStatus(image=image or state.spec.client.image, image_digest=digest)
    return Judging(ended_early, servers=tuple(server_statuses(state)), client=client)


def final_status(state: RunState, end: Ending | None, judged: Answer[api.Judgement] | None) -> api.BenchmarkRunStatus:
    """The run as it ended. `judged`: None where nothing was measured."""
    found = (judged.value if judged is not None else None) or api.Judgement()
    why_not = judged.problem or "unknown" if judged is not None and judged.value is None else None
    if end is None and why_not is None and not found.measured_anything:
        first = found.refused[0] if found.refused else "they are gone"
        end = Ending(api.Reason.RECORDS_MISSING, f"none of the records can be used: {first}")
    if end is None and found.all_requests_failed:
        answer = f"; the server's answer to one more: {found.diagnostic}" if found.diagnostic else ""
        end = Ending(api.Reason.ALL_REQUESTS_FAILED, f"every request failed{answer}")
    if end is not None:
        return _ended_early(state, end, found, why_not)
    if why_not is not None:
        message = f"all {state.stages_in_words} stages are measured, but not judged: {why_not}. `benchrun judge` can do it later"
        return _measured(state, message, api.Reason.NOT_JUDGED, found)
    return _measured(state, found.message, found.valid_reason, found)


def _measured(state: RunState, message: str, valid_reason: str, found: api.Judgement) -> api.BenchmarkRunStatus:
    comparison, message = found.comparison, api.sentence(message)
    regressed = None
    if found.not_regressed is not None and comparison is not None:
        regressed = found.not_regressed, found.not_regressed_reason, comparison.message
    met = found.objectives_met if state.spec.objectives else None
    rows = condition_table.measured(valid_reason, message, objectives_met=met, not_regressed=regressed)
    return _ended(state, "Completed", message, rows, found)


def _ended_early(state: RunState, end: Ending, found: api.Judgement, why_not: str | None) -> api.BenchmarkRunStatus:
    message = api.sentence(
        end.message if why_not is None else f"{end.message}; what was measured is not judged: {why_not}"
    )
    ended = _ended(state, end.phase, message, condition_table.ended_early("run", end.reason, message), found)
    # At most 4 KiB of the log: a status is small.
    log = state.log_tail
    tail = log.encode()[-LOG_TAIL_BYTES:].decode(errors="ignore") if log else None
    return ended.model_copy(update={"log_tail": api.plain_text(tail) if tail else None})


def _ended(
    state: RunState, phase: api.Phase, message: str, rows: Iterable[Row], found: api.Judgement
) -> api.BenchmarkRunStatus:
    servers = server_statuses(state)
    update = {
        "completion_time": api.timestamp(state.now),
        "server_released_time": state.released_time,
        "servers": servers,
        "progress": progress(state).model_copy(update={"stage": None}),
        "live": None,
        "ending": None,
        "truncated": [*found.truncated, *truncations(state.spec, servers), *pruned(state, last_to_store(state))],
        "results_ref": f"{names.LABEL_RUN_UID}={state.owner.uid}" if state.known else None,
    }
    judged = {name: getattr(found, name) for name in _OF_THE_JUDGEMENT}
    status = state.status.model_copy(update=update | judged)
    return condition_table.standing(status, rows, phase, message, of=state.facts.run, now=state.now)


def after_finish(state: RunState) -> Decision:
    """A finished run never restarts. Clean up, delete what is too much to keep, then wait for the TTL if there is one. Nothing changes in
    the status but the generation that was seen: tools wait for it, whatever was edited."""
    ended = instant(state.status.completion_time) or state.now
    age_seconds = (state.now - ended).total_seconds()
    client, ttl = release_client(state), state.spec.ttl_seconds_after_finished
    leaves_by_itself = api.is_true(state.status.conditions, "Complete") and age_seconds < CLIENT_LEAVES_SECONDS
    expired = ttl is not None and age_seconds >= ttl
    waits = [CLIENT_LEAVES_SECONDS - age_seconds] if client and leaves_by_itself else []
    if ttl is not None and not expired:
        waits.append(ttl - age_seconds)
    return Decision(
        status=state.status.model_copy(update={"observed_generation": state.facts.run.generation}),
        delete=(*release_servers(state.facts), *to_prune(state), *(() if leaves_by_itself else client)),
        forget=True,
        delete_run=expired,
        requeue_after_seconds=min(waits, default=None),
    )
