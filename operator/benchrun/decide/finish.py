"""The last status of a run: everything in one write, so that nobody ever sees an end without its results."""

from __future__ import annotations

from benchrun.api import names
from benchrun.api.conditions import ConditionStatus, Reason, timestamp
from benchrun.api.status import BenchmarkRunStatus, Phase
from benchrun.decide import bounds, condition_table
from benchrun.decide.client_status import client_status
from benchrun.decide.collection import last_to_store
from benchrun.decide.comparison import held_against
from benchrun.decide.dataset_status import dataset_statuses
from benchrun.decide.decision import Ending
from benchrun.decide.live import progress
from benchrun.decide.pruning import pruned
from benchrun.decide.servers import server_statuses
from benchrun.decide.situation import Situation
from benchrun.judge.cost import cost_status
from benchrun.judge.results import Judged, results
from benchrun.judge.thresholds import judge_of
from benchrun.plan.searches import probed_cells
from benchrun.plan.stages import cells


def completed(situation: Situation) -> BenchmarkRunStatus:
    """Every stage was measured."""
    found = _judge(situation)
    invalid = sum(r.verdict == "Invalid" for r in found.results)
    reason = {"Valid": Reason.ALL_VALID, "Suspect": Reason.SUSPECT}.get(found.verdict, Reason.INVALID_CELLS)
    message = _sentence(found, invalid=invalid)
    if _every_request_failed(found):
        told = next((r.diagnostic for r in situation.collected.records if r.diagnostic), None)
        answer = f"; the server's answer to one more: {told}" if told else ""
        return _failed(situation, Ending(Reason.ALL_REQUESTS_FAILED, f"every request failed{answer}"), found)
    ended = _ended(situation, "Completed", message, found)
    against = held_against(situation, ended)
    conditions = condition_table.measured(
        situation.status.conditions,
        valid_reason=reason,
        message=message,
        objectives_met=_objectives_met(found) if situation.spec.objectives else None,
        not_regressed=(*against.not_regressed, against.comparison.message) if against is not None else None,
        generation=situation.world.run.generation,
        now=situation.now,
    )
    update: dict[str, object] = {"conditions": conditions}
    if against is not None:
        update |= {"comparison": against.comparison, "truncated": [*ended.truncated, *against.truncated]}
    return ended.model_copy(update=update)


def _every_request_failed(found: Judged) -> bool:
    """In all stages: a repeat that was lost leaves the others."""
    entry = next((f for f in found.findings if f.code == "AllRequestsFailed"), None)
    return entry is not None and entry.count == sum(row.repeats for row in found.results)


def failed(situation: Situation, end: Ending) -> BenchmarkRunStatus:
    """The run ended early, by failure or by wish. What was measured is kept and marked."""
    return _failed(situation, end, _judge(situation))


def _failed(situation: Situation, end: Ending, found: Judged) -> BenchmarkRunStatus:
    phase: Phase = "Cancelled" if end.reason == Reason.CANCELLED else "Failed"
    conditions = condition_table.ended_early(
        situation.status.conditions,
        reason=end.reason,
        message=bounds.sentence(end.message),
        generation=situation.world.run.generation,
        now=situation.now,
    )
    update = {"conditions": conditions, "log_tail": bounds.log_tail(situation.collected.log_tail)}
    return _ended(situation, phase, end.message, found).model_copy(update=update)


def _judge(situation: Situation) -> Judged:
    spec, collected = situation.spec, situation.collected
    return results(
        (*cells(spec), *probed_cells(spec, collected.records)),
        collected.records,
        tuple(collected.samples),
        spec=spec,
        compilations=collected.compilations,
        servers=server_statuses(situation),
    )


def _ended(situation: Situation, phase: Phase, message: str, found: Judged) -> BenchmarkRunStatus:
    servers = server_statuses(situation)
    datasets, datasets_cut = dataset_statuses(situation.collected.records, workloads=len(situation.spec.workloads))
    measured_anything = bool(situation.collected.records)
    selector = f"{names.LABEL_RUN_UID}={situation.owner.uid}"
    released = situation.status.server_released_time or (timestamp(situation.now) if situation.server_exists else None)
    return situation.status.model_copy(
        update={
            "observed_generation": situation.world.run.generation,
            "phase": phase,
            "message": bounds.sentence(message),
            "completion_time": timestamp(situation.now),
            "server_released_time": released,
            "servers": servers,
            "client": client_status(situation),
            "cost": cost_status(situation.spec.cost, servers),
            "datasets": datasets,
            "progress": progress(situation).model_copy(update={"stage": None}),
            "live": None,
            "results": list(found.results),
            "searches": list(found.searches),
            "findings": list(found.findings),
            "verdict": found.verdict,
            "headline": found.headline,
            "judge": judge_of(situation.spec),
            "truncated": [
                *found.truncated,
                *datasets_cut,
                *bounds.truncations(situation.spec, servers),
                *pruned(situation, last_to_store(situation)),
            ],
            "results_ref": selector if measured_anything else None,
        }
    )


def _objectives_met(found: Judged) -> ConditionStatus:
    """Unknown unless all could be told: an objective nobody could judge is not met. A search that found a load met them."""
    searches = {search.workload for search in found.searches}
    outcomes = {o.outcome for r in found.results for o in r.objectives if r.workload not in searches}
    outcomes |= {"Met" if s.lower is not None else s.upper_outcome or "Inconclusive" for s in found.searches}
    if "Missed" in outcomes:
        return "False"
    return "Unknown" if "Inconclusive" in outcomes else "True"


def _sentence(found: Judged, *, invalid: int) -> str:
    verdict, total = found.verdict, len(found.results)
    if found.searches:
        return _search_sentence(found)
    points = "the load point" if total == 1 else f"all {total} load points"
    if verdict == "Valid":
        return f"measured {points}; every number is valid"
    if verdict == "Suspect":
        return f"measured {points}; some numbers are suspect, see findings"
    return f"measured {points}, but {invalid} of {total} are invalid: their numbers mean nothing, see findings"


def _search_sentence(found: Judged) -> str:
    sentences = "; ".join(f"{search.workload}: {search.sentence}" for search in found.searches)
    worth = {"Valid": "", "Suspect": " Some numbers it rests on are suspect, see findings."}
    return f"{sentences}.{worth.get(found.verdict, ' Numbers it rests on are invalid, see findings.')}"
