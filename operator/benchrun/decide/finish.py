"""The last status of a run: everything in one write, so that nobody ever sees an end without its results."""

from __future__ import annotations

from benchrun.api import names
from benchrun.api.conditions import Reason, timestamp
from benchrun.api.judgement import Judgement
from benchrun.api.status import BenchmarkRunStatus, ClientStatus, Phase, Truncated
from benchrun.api.text import plain_text, sentence
from benchrun.decide import bounds, condition_table
from benchrun.decide.collected import Ending
from benchrun.decide.collection import last_to_store
from benchrun.decide.live import progress
from benchrun.decide.lookups import Answer, Judging
from benchrun.decide.pruning import pruned
from benchrun.decide.servers import server_statuses
from benchrun.decide.situation import Situation


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
    comparison = found.comparison
    regressed = (
        (found.not_regressed, found.not_regressed_reason, comparison.message)
        if found.not_regressed is not None and comparison is not None
        else None
    )
    conditions = condition_table.measured(
        situation.status.conditions,
        valid_reason=valid_reason,
        message=sentence(message),
        objectives_met=found.objectives_met if situation.spec.objectives else None,
        not_regressed=regressed,
        generation=situation.world.run.generation,
        now=situation.now,
    )
    return _ended(situation, "Completed", message, found).model_copy(update={"conditions": conditions})


def _ended_early(situation: Situation, end: Ending, found: Judgement, why_not: str | None) -> BenchmarkRunStatus:
    phase: Phase = "Cancelled" if end.reason == Reason.CANCELLED else "Failed"
    message = end.message if why_not is None else f"{end.message}; what was measured is not judged: {why_not}"
    conditions = condition_table.ended_early(
        situation.status.conditions,
        reason=end.reason,
        message=sentence(message),
        generation=situation.world.run.generation,
        now=situation.now,
    )
    tail = bounds.log_tail(situation.log_tail)
    update = {"conditions": conditions, "log_tail": plain_text(tail) if tail else None}
    return _ended(situation, phase, message, found).model_copy(update=update)


def _ended(situation: Situation, phase: Phase, message: str, found: Judgement) -> BenchmarkRunStatus:
    servers = server_statuses(situation)
    selector = f"{names.LABEL_RUN_UID}={situation.owner.uid}"
    return situation.status.model_copy(
        update={
            "observed_generation": situation.world.run.generation,
            "phase": phase,
            "message": sentence(message),
            "completion_time": timestamp(situation.now),
            "server_released_time": situation.released_time,
            "servers": servers,
            "client": found.client,
            "cost": found.cost,
            "datasets": found.datasets,
            "progress": progress(situation).model_copy(update={"stage": None}),
            "live": None,
            "ending": None,
            "results": found.results,
            "searches": found.searches,
            "findings": found.findings,
            "verdict": found.verdict,
            "headline": found.headline,
            "judge": found.judge,
            "comparison": found.comparison,
            "truncated": [*found.truncated, *bounds.truncations(situation.spec, servers), *_pruned(situation)],
            "results_ref": selector if situation.known else None,
        }
    )


def _pruned(situation: Situation) -> list[Truncated]:
    return pruned(situation, last_to_store(situation))
