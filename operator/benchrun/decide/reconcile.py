"""One pass over one run: from what is seen to what is to be done. Read it from top to bottom; each step may end the pass."""

from __future__ import annotations

from dataclasses import replace

from benchrun.api.conditions import Condition, Reason, timestamp
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide import bounds, condition_table
from benchrun.decide.acceptance import Unacceptable, accept
from benchrun.decide.after_finish import after_finish, is_finished
from benchrun.decide.children import missing_children, release_all, release_client, release_server
from benchrun.decide.collection import last_to_store, to_acknowledge, to_store, worth_waiting_to_store
from benchrun.decide.comparison import baseline_wanted
from benchrun.decide.deadlines import deadlines
from benchrun.decide.decision import Decision, Ending, Event, LogWanted, World
from benchrun.decide.failures import client_diagnosis, ending, hidden_cause, log_of, server_diagnosis
from benchrun.decide.finish import completed, failed
from benchrun.decide.followed import pull_target, scrape_targets
from benchrun.decide.gpu_telemetry import exporters_wanted
from benchrun.decide.grace import grace_ends
from benchrun.decide.instants import from_unix_us
from benchrun.decide.live import live_figures, progress
from benchrun.decide.refused import no_pod_at, results_refused, with_refusal
from benchrun.decide.releasing import compilation_log, must_read_back
from benchrun.decide.servers import server_statuses
from benchrun.decide.situation import Situation
from benchrun.decide.startups import startups_wanted
from benchrun.decide.step import Step, current_step
from benchrun.decide.unaccepted import unaccepted
from benchrun.observe.views import Diagnosis
from benchrun.plan.stages import estimate

ENDPOINT_LOOKUP_SECONDS = 5.0
SHORTEST_WAIT_SECONDS = 1.0
"""A deadline that has passed and can't be judged yet must not keep the operator spinning."""


def decide(world: World) -> Decision:
    """What to do about a run now. The same world gives the same decision; its own outcome, seen again, changes nothing."""
    status = BenchmarkRunStatus.model_validate(world.run.status)
    if world.run.deleting:
        return Decision(status=status, forget=True)
    try:
        spec = accept(world.run)
    except Unacceptable as error:
        if is_finished(status):
            seen = status.model_copy(update={"observed_generation": world.run.generation})
            return Decision(status=seen, delete=release_all(world), forget=True)
        return _refused(world, status, str(error))
    situation = Situation(world=world, spec=spec, status=status)
    if is_finished(status):
        return after_finish(situation)
    situation = _noticed(situation)
    if spec.suspend and not spec.cancel and not situation.server_exists and not situation.begun:
        return _suspended(situation)
    hidden = hidden_cause(situation)
    if hidden is not None:
        return Decision(status=situation.status, log_wanted=hidden, pull=pull_target(situation))
    server, client = server_diagnosis(situation), client_diagnosis(situation)
    end = ending(situation, server=server, client=client)
    if end is not None:
        return _fail(situation, end, diagnosis=server)
    if _endpoint_unknown(situation):
        return _look_up_endpoint(situation)
    if situation.all_known:
        return _complete(situation)
    return _go_on(situation, server=server, client=client)


def _noticed(situation: Situation) -> Situation:
    """The situation with the instants that have come to pass; each is noted once and kept."""
    status, heard = situation.status, situation.collected.progress
    instants = [pod.scheduled_at for pod in situation.serving if pod.scheduled_at is not None]
    scheduled = max(instants) if len(instants) == situation.wanted_pods > 0 else None
    healthy = from_unix_us(heard.healthy_unix_us) if heard is not None else None
    began = from_unix_us(heard.first_request_unix_us) if heard is not None else None
    update = {
        "observed_generation": situation.world.run.generation,
        "accepted_time": status.accepted_time or timestamp(situation.now),
        "estimate": status.estimate or estimate(situation.spec),
        "scheduled_time": status.scheduled_time or (timestamp(scheduled) if scheduled is not None else None),
        "server_ready_time": status.server_ready_time or healthy,
        "start_time": status.start_time or began,
    }
    return Situation(world=situation.world, spec=situation.spec, status=status.model_copy(update=update))


def _go_on(situation: Situation, *, server: Diagnosis | None, client: Diagnosis | None) -> Decision:
    step = with_refusal(situation, current_step(situation, server=server, client=client))
    stored_now = to_store(situation)
    servers = server_statuses(situation)
    status = _with_step(situation, step).model_copy(
        update={
            "servers": servers,
            "progress": progress(situation),
            "live": live_figures(situation),
            "truncated": bounds.truncations(situation.spec, servers),
        }
    )
    return Decision(
        status=status,
        apply=(*missing_children(situation), *stored_now),
        scrape=scrape_targets(situation),
        pull=pull_target(situation),
        startups_wanted=startups_wanted(situation, servers),
        exporters_wanted=exporters_wanted(situation),
        lookup_endpoint=_behind_service(situation) and situation.collected.endpoint_addresses is None,
        acknowledge=to_acknowledge(situation, stored_now),
        events=_step_events(situation, step),
        requeue_after_seconds=_look_again(replace(situation, status=status)),
    )


def _complete(situation: Situation) -> Decision:
    """Every record is here: the server goes first, then the records are stored and judged, all in this pass."""
    released = replace(_release(situation), log_search=compilation_log(situation))
    if worth_waiting_to_store(situation):
        return released
    wanted = baseline_wanted(situation)
    if released.log_search is not None or must_read_back(situation) or wanted is not None:
        # What can't be stored is in memory only: the client keeps it until it is judged.
        acknowledge = None if results_refused(situation) else released.acknowledge
        return replace(
            released, apply=last_to_store(situation), acknowledge=acknowledge, read_back=True, baseline_wanted=wanted
        )
    status = completed(situation)
    ended_well = status.phase == "Completed"
    return Decision(
        status=status,
        delete=release_server(situation),
        apply=last_to_store(situation),
        pull=pull_target(situation),
        acknowledge=situation.total_stages if situation.client_runs else None,
        forget=True,
        events=(Event(status.phase or "Completed", status.message or "", warning=not ended_well),),
        requeue_after_seconds=1.0,
    )


def _release(situation: Situation) -> Decision:
    """Records are still to be read back, or can't be stored now: the server need not wait for that."""
    going_on = _go_on(situation, server=None, client=None)
    released = situation.status.server_released_time or (timestamp(situation.now) if situation.server_exists else None)
    status = going_on.status.model_copy(update={"server_released_time": released})
    return replace(going_on, status=status, delete=release_server(situation))


def _fail(situation: Situation, end: Ending, *, diagnosis: Diagnosis | None) -> Decision:
    """Server first, then client. The server's last words are fetched before its pod is gone."""
    wanted = _log_wanted(situation, end, diagnosis)
    if wanted is not None:
        return Decision(status=situation.status, log_wanted=wanted, pull=pull_target(situation))
    let_go = Decision(
        status=situation.status,
        delete=(*release_server(situation), *release_client(situation)),
        apply=last_to_store(situation),
        requeue_after_seconds=1.0,
    )
    if must_read_back(situation):
        return replace(let_go, status=_ending_status(situation, end), read_back=True, ending=end)
    return replace(
        let_go,
        status=failed(situation, end),
        forget=True,
        events=(Event(end.reason, end.message, warning=end.reason != Reason.CANCELLED),),
    )


def _ending_status(situation: Situation, end: Ending) -> BenchmarkRunStatus:
    """Of a run that ends and is not judged yet; written only when its records can't be read at once."""
    released = situation.status.server_released_time or (timestamp(situation.now) if situation.server_exists else None)
    step = Step("Collecting", end.reason, f"{end.message}; reading back what was measured")
    return _with_step(situation, step).model_copy(update={"server_released_time": released})


def _log_wanted(situation: Situation, end: Ending, diagnosis: Diagnosis | None) -> LogWanted | None:
    pods = situation.serving
    servers_fault = diagnosis is not None or end.reason in (Reason.SERVER_RESTARTED, Reason.STARTUP_DEADLINE)
    if not servers_fault or not pods or situation.collected.log_tail_tried or end.reason == Reason.CANCELLED:
        return None
    ended = (each for each in pods if each.terminated or each.last_terminated)
    pod = next(ended, None) or next((each for each in pods if not each.ready), pods[-1])
    if pod.started_at is None and pod.terminated is None and pod.last_terminated is None:
        return None
    return log_of(pod)


def _suspended(situation: Situation) -> Decision:
    """The clock of the deadlines stands still: it starts anew with the run."""
    step = Step("Suspended", Reason.SUSPENDED, "suspended by spec.suspend; nothing is held")
    status = _with_step(situation, step).model_copy(update={"accepted_time": None})
    return Decision(status=status, delete=release_client(situation), events=_step_events(situation, step))


def _refused(world: World, status: BenchmarkRunStatus, problem: str) -> Decision:
    generation, problem = world.run.generation, bounds.sentence(problem)
    conditions = condition_table.ended_early(
        status.conditions, reason=Reason.INVALID_SPEC, message=problem, generation=generation, now=world.now
    )
    fields = unaccepted(problem, conditions, generation=generation, now=world.now)
    ended = status.model_copy(update=fields | {"verdict": "Unknown"})
    return Decision(
        status=ended,
        delete=release_all(world),
        forget=True,
        events=(Event(Reason.INVALID_SPEC, problem, warning=True),),
    )


def _endpoint_unknown(situation: Situation) -> bool:
    """A Service's pods must be known before the plan is written: their pages are snapshot at every edge."""
    planned = situation.has_plan
    return _behind_service(situation) and not planned and not situation.collected.endpoint_addresses


def _behind_service(situation: Situation) -> bool:
    endpoint = situation.spec.endpoint
    return endpoint is not None and endpoint.service_ref is not None


def _look_up_endpoint(situation: Situation) -> Decision:
    missing = situation.collected.endpoint_addresses == ()
    reference = situation.spec.endpoint.service_ref if situation.spec.endpoint is not None else None
    name = reference.name if reference is not None else ""
    message = (
        f"Service {name} has no ready pods; the run starts when it has"
        if missing
        else f"looking up the pods of Service {name}"
    )
    step = Step("Pending", Reason.WAITING_FOR_ENDPOINT, message)
    wait = min(ENDPOINT_LOOKUP_SECONDS, _look_again(situation) or ENDPOINT_LOOKUP_SECONDS) if missing else 0.0
    return Decision(status=_with_step(situation, step), lookup_endpoint=True, requeue_after_seconds=wait)


def _with_step(situation: Situation, step: Step) -> BenchmarkRunStatus:
    step = replace(step, message=bounds.sentence(step.message))
    conditions: tuple[Condition, ...] = condition_table.going_on(
        situation.status.conditions,
        step,
        has_objectives=bool(situation.spec.objectives),
        has_baseline=situation.spec.baseline is not None,
        generation=situation.world.run.generation,
        now=situation.now,
    )
    return situation.status.model_copy(update={"phase": step.phase, "message": step.message, "conditions": conditions})


def _step_events(situation: Situation, step: Step) -> tuple[Event, ...]:
    """A new phase is worth an event; the way through it is not."""
    worth_telling = ("WaitingForNode", "Starting", "Running", "Suspended")
    if situation.status.phase == step.phase or step.phase not in worth_telling:
        return ()
    return (Event(step.phase, step.message),)


def _look_again(situation: Situation) -> float | None:
    """When something could change without an event: a deadline, or the next live figures."""
    instants = [*(d.ends_at for d in deadlines(situation)), *grace_ends(situation)]
    said_at = no_pod_at(situation)
    if said_at is not None and said_at > situation.now:
        instants.append(said_at)
    waits = [(at - situation.now).total_seconds() for at in instants]
    if situation.collected.samples and scrape_targets(situation):
        waits.append(situation.world.context.live_interval_seconds)
    return max(SHORTEST_WAIT_SECONDS, min(waits)) if waits else None
