"""One pass over one run: from what is seen to what is to be done. Read it from top to bottom; each step may end the pass.

A pass that knows that the run ends requests the servers' deletion, whatever else it requests: the runtime deletes first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchrun.api import BenchmarkRunStatus, EndingStatus, Reason, has_ended, read_status, sentence, timestamp
from benchrun.decide import condition_table
from benchrun.decide.children import (
    last_to_store,
    missing_children,
    release_all,
    release_client,
    release_servers,
    to_acknowledge,
    to_store,
    worth_waiting_to_store,
)
from benchrun.decide.condition_table import Step, current_step, live_figures, progress
from benchrun.decide.deadlines import deadlines, grace_ends, no_pod_at, noticed, results_refused, with_refusal
from benchrun.decide.failures import client_diagnosis, ending, hidden_cause, last_words, server_diagnosis
from benchrun.decide.finish import after_finish, after_unreadable_finish, final_status, judging
from benchrun.decide.servers import (
    compilations_wanted,
    endpoint_addresses,
    endpoint_pods,
    exporters_wanted,
    pull_target,
    scrape_targets,
    server_statuses,
    startups_wanted,
    truncations,
)
from benchrun.decide.situation import Situation, Unacceptable, accept
from benchrun.decide.world import Decision, Ending, EndpointPods, Event, Question, World
from benchrun.observe.views import Diagnosis

ENDPOINT_LOOKUP_SECONDS = 5.0
SHORTEST_WAIT_SECONDS = 1.0
"""A deadline that has passed and can't be judged yet must not keep the operator spinning."""


def decide(world: World) -> Decision:
    """What to do about a run now. The same world gives the same decision; its own outcome, seen again, changes nothing."""
    status = read_status(world.run.status)
    if world.run.deleting:
        return Decision(status=status, forget=True)
    ended, begun = has_ended(status.conditions), status.accepted_time is not None
    try:
        spec = accept(world.run, begun=begun)
    except Unacceptable as error:
        if ended:
            return after_unreadable_finish(world, status)
        if begun and world.run.spec.get("cancel") is not True:
            return _left_alone(world, status, str(error))
        return _refused(world, status, str(error))
    situation = Situation(world=world, spec=spec, status=status)
    if ended:
        return after_finish(situation)
    situation = noticed(situation)
    going_nowhere = situation.ending is None and not situation.server_exists and not situation.begun
    if spec.suspend and not spec.cancel and going_nowhere:
        return _suspended(situation)
    server, client = server_diagnosis(situation), client_diagnosis(situation)
    end = ending(situation, server=server, client=client)
    if end is not None or situation.all_known:
        return _end(situation, end, server=server)
    endpoint = _unknown_endpoint(situation)
    if endpoint is not None:
        return _look_up_endpoint(situation, endpoint)
    return _go_on(situation, server=server, client=client)


def _go_on(situation: Situation, *, server: Diagnosis | None, client: Diagnosis | None) -> Decision:
    step = with_refusal(situation, current_step(situation, server=server, client=client))
    stored_now = to_store(situation)
    servers = server_statuses(situation)
    wanted: tuple[Question[Any] | None, ...] = (
        *startups_wanted(situation, servers),
        *exporters_wanted(situation),
        endpoint_pods(situation),
        hidden_cause(situation),
    )
    update = {
        "servers": servers,
        "progress": progress(situation),
        "live": live_figures(situation),
        "truncated": truncations(situation.spec, servers),
    }
    status = _with_step(situation, step).model_copy(update=update)
    return Decision(
        status=status,
        apply=(*missing_children(situation), *stored_now),
        scrape=scrape_targets(situation),
        pull=pull_target(situation),
        lookups=tuple(question for question in wanted if question is not None),
        acknowledge=to_acknowledge(situation, stored_now),
        events=_step_events(situation, step),
        requeue_after_seconds=_look_again(replace(situation, status=status)),
    )


def _end(situation: Situation, end: Ending | None, *, server: Diagnosis | None) -> Decision:
    """Every record is here, or none comes any more. The servers go first, with the client where the run ends early; then what
    is left is stored, judged, and written, in as many passes as it takes."""
    words = last_words(situation, end, server=server) if end is not None else None
    log = compilations_wanted(situation)
    waits = end is None and worth_waiting_to_store(situation)
    stored_now = to_store(situation) if waits else last_to_store(situation)
    let_go = Decision(
        status=_ending_status(situation, end),
        last_words=words,
        delete=(*release_servers(situation.world), *(release_client(situation) if end is not None else ())),
        apply=stored_now,
        pull=pull_target(situation),
        lookups=(log,) if log is not None else (),
        acknowledge=to_acknowledge(situation, stored_now),
        ending=end,
        requeue_after_seconds=SHORTEST_WAIT_SECONDS,
    )
    if words is not None or waits or (log is not None and situation.collected.answers.of(log) is None):
        return let_go
    judged = None
    if situation.known:
        question = judging(situation, ended_early=end is not None)
        judged = situation.collected.answers.of(question)
        if judged is None:
            return replace(let_go, lookups=(*let_go.lookups, question))
    status = final_status(situation, end, judged)
    reason = end.reason if end is not None else status.phase or "Completed"
    return replace(
        let_go,
        status=status,
        # What could not be stored the client has kept until now.
        acknowledge=situation.total_stages if situation.client_runs and end is None else None,
        forget=True,
        events=(Event(reason, status.message or "", warning=status.phase == "Failed"),),
    )


def _ending_status(situation: Situation, end: Ending | None) -> BenchmarkRunStatus:
    """Of a run whose measurement is over and that is not judged yet."""
    total = situation.stages_in_words
    if end is None:
        step = Step("Collecting", Reason.COLLECTING, f"all {total} stages are measured; the records are judged", True)
        step = with_refusal(situation, step) if results_refused(situation) else step
    else:
        step = Step("Collecting", end.reason, f"{end.message}; what was measured is judged")
    return _with_step(situation, step).model_copy(
        update={
            "servers": server_statuses(situation),
            "progress": progress(situation),
            "server_released_time": situation.released_time,
            "ending": None if end is None else EndingStatus(reason=end.reason, message=sentence(end.message)),
        }
    )


def _suspended(situation: Situation) -> Decision:
    """The clock of the deadlines stands still: it starts anew with the run."""
    step = Step("Suspended", Reason.SUSPENDED, "suspended (spec.suspend); no GPU is held")
    status = _with_step(situation, step).model_copy(update={"accepted_time": None})
    return Decision(status=status, delete=release_client(situation), events=_step_events(situation, step))


def _left_alone(world: World, status: BenchmarkRunStatus, problem: str) -> Decision:
    """Of a run that an operator of another version accepted: it goes on without us until that one is back, or is cancelled.
    Its servers are held no longer than they may be (`benchrun-operator release`)."""
    message = sentence(f"accepted by an operator of another version; this one can't read the spec: {problem}")
    ends = status.ending is not None or status.server_released_time is not None
    return Decision(
        status=status.model_copy(update={"message": message}), delete=release_servers(world) if ends else ()
    )


def _refused(world: World, status: BenchmarkRunStatus, problem: str) -> Decision:
    problem = sentence(problem)
    rows = condition_table.ended_early(Reason.INVALID_SPEC, problem)
    ended = condition_table.standing(status, rows, "Failed", problem, of=world.run, now=world.now)
    return Decision(
        status=ended.model_copy(update={"verdict": "Unknown", "completion_time": timestamp(world.now)}),
        delete=release_all(world),
        forget=True,
        events=(Event(Reason.INVALID_SPEC, problem, warning=True),),
    )


def _unknown_endpoint(situation: Situation) -> EndpointPods | None:
    """A Service's pods must be known before the plan is written: their counters are read at every edge."""
    return None if situation.has_plan or endpoint_addresses(situation) else endpoint_pods(situation)


def _look_up_endpoint(situation: Situation, question: EndpointPods) -> Decision:
    missing = situation.collected.answers.of(question) is not None
    message = (
        f"Service {question.service} has no ready pods; the run starts when it has"
        if missing
        else f"looking up the pods of Service {question.service}"
    )
    step = Step("Pending", Reason.WAITING_FOR_ENDPOINT, message)
    wait = min(ENDPOINT_LOOKUP_SECONDS, _look_again(situation) or ENDPOINT_LOOKUP_SECONDS)
    return Decision(status=_with_step(situation, step), lookups=(question,), requeue_after_seconds=wait)


def _with_step(situation: Situation, step: Step) -> BenchmarkRunStatus:
    spec, message = situation.spec, sentence(step.message)
    rows = condition_table.going_on(
        replace(step, message=message), has_objectives=bool(spec.objectives), has_baseline=spec.baseline is not None
    )
    return condition_table.standing(
        situation.status, rows, step.phase, message, of=situation.world.run, now=situation.now
    )


def _step_events(situation: Situation, step: Step) -> tuple[Event, ...]:
    """A new phase is worth an event; the way through it is not."""
    worth_telling = ("Running", "Suspended")
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
    if situation.collected.samples.recent and scrape_targets(situation):
        waits.append(situation.world.context.live_interval_seconds)
    return max(SHORTEST_WAIT_SECONDS, min(waits)) if waits else None
