"""One reconcile of one run: from its observed state to what to do.

Read `decide` from top to bottom; each step may end the reconcile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from benchrun import api, names
from benchrun.api import (
    BenchmarkRunStatus,
    Reason,
    read_leniently,
    sentence,
    timestamp,
)
from benchrun.decide import (
    condition_table,
    create_and_release,
    early_endings,
    queueing,
    quota,
    server_status,
)
from benchrun.decide.condition_table import PhaseStep, current_step, progress
from benchrun.decide.deadlines import deadlines, noticed
from benchrun.decide.decision import (
    Answer,
    Decision,
    Ending,
    EndpointPods,
    Evaluation,
    Event,
    Facts,
    Judging,
    LabelledPods,
    Manifest,
    Query,
)
from benchrun.decide.patience import blocked, patience_ends
from benchrun.decide.refusals import (
    LOOK_AGAIN_SECONDS,
    STORE_AGAIN_SECONDS,
    no_pod_at,
    refusal,
    results_refused,
    seconds_to_store_again,
    unmade_at,
    unmade_pods,
    with_refusal,
)
from benchrun.decide.run_state import Possessions, RunState, Unacceptable, accept
from benchrun.measure import live, power_sentence
from benchrun.observe import Diagnosis, Run, instant, is_finished, number
from benchrun.plan import PackedResult, applied_fields, load_points

ENDPOINT_LOOKUP_SECONDS = 5.0
SHORTEST_WAIT_SECONDS = 1.0
"""Least seconds until the next reconcile. Without it, a deadline that has passed but can't end the
run yet would cause one reconcile after the other."""
# attempts by operators that did not see the measurement begin
MAX_JUDGE_ATTEMPTS = 3
LOG_TAIL_BYTES = 4096  # bytes of a failed server's log that the status keeps
NAMED_CHARS = 400  # most characters of the list of stages whose records are lost
NO_ROOM = (
    "the operator's memory has no room for this run: the specs and statuses of the runs in this "
    "namespace take more than the namespace's share; delete runs that have ended or are suspended, "
    "or shorten this run's spec. The run continues when there is room"
)
CLIENT_LEAVES_SECONDS = 30
"""Seconds that the client may take to end by itself after its last record was acknowledged."""


def decide(facts: Facts) -> Decision:
    """Decide what to do about a run now.

    The same observed state gives the same decision. Once a decision is carried out, deciding again
    changes nothing.
    """
    status = read_leniently(BenchmarkRunStatus, facts.run.status)
    if facts.run.deleting:
        return Decision(status=status, forget=True)
    if api.has_ended(status.conditions):
        return _after_finish(Possessions(facts=facts, status=status))
    begun = (
        status.accepted_time is not None
        or status.queue is not None
        or (status.phase == "Suspended" and facts.run.spec.get("suspend") is True)
    )
    try:
        spec = accept(facts.run, begun=begun)
    except Unacceptable as error:
        if begun and facts.run.spec.get("cancel") is not True:
            return _left_alone(facts, status, str(error))
        return _refused(facts, status, str(error))
    state = RunState(facts=facts, spec=spec, status=status)
    state = noticed(state)
    has_no_server = (
        state.ending is None and not state.server_exists and not state.begun
    )
    has_client = state.child("Job", names.ROLE_CLIENT) is not None
    is_untouched = has_no_server and status.queue is None and not has_client
    if facts.run.left_out and not spec.cancel and is_untouched:
        return _without_room(state)
    may_suspend = spec.suspend and not spec.cancel and not quota.is_leaving(state)
    if may_suspend and has_no_server:
        return _suspend(state)
    state = early_endings.with_blocked(quota.joined(state))
    if quota.is_voided(state):
        return _void(state)
    server = early_endings.server_diagnosis(state)
    client = early_endings.client_diagnosis(state)
    end = early_endings.ending(state, server=server, client=client)
    if (
        end is not None
        or state.all_known
        or early_endings.profile_lost(state, server=server, client=client)
    ):
        return _end(state, end, server=server)
    if state.waits_in_queue:
        return _wait_in_queue(state)
    endpoint = server_status.endpoint_pods(state)
    # A Service's pods must be known before the plan is written: their counters are read at every
    # edge.
    if (
        endpoint is not None
        and state.plan is None
        and not server_status.endpoint_addresses(state)
    ):
        return _look_up_endpoint(state, endpoint)
    return _go_on(state, server=server, client=client)


def _suspend(state: RunState) -> Decision:
    """Decide on a suspended run without a server: its client and its quota go.

    The instants from which deadlines are counted are dropped, so that deadlines begin anew with the
    run.
    """
    step = PhaseStep(
        "Suspended", Reason.SUSPENDED, "suspended (spec.suspend); no GPU is held"
    )
    update = {
        "accepted_time": None,
        "blocked": None,
        "model": None,
        "queue": queueing.parked(state),
    }
    return Decision(
        status=_with_step(state, step).model_copy(update=update),
        delete=(
            *create_and_release.release_client(state),
            *create_and_release.release_quota(state),
        ),
        events=_step_events(state, step),
    )


def _wait_in_queue(state: RunState) -> Decision:
    """Decide on a run without its quota, of whose objects only the Workload exists.

    Of the deadlines only pendingDeadlineSeconds is counted. A quota is first noted in the status;
    other objects are made once that is written.
    """
    if queueing.left_queue(state):
        moved = quota.with_queue(state, queueing.next_queue(state))
        return Decision(
            status=_queued_status(moved, queueing.waiting_step(state)),
            delete=create_and_release.release_quota(state),
            requeue_after_seconds=SHORTEST_WAIT_SECONDS,
        )
    query = queueing.flavors_wanted(state)
    if (granted := queueing.admitted(state)) is not None:
        step = queueing.waiting_step(state)
        status = _queued_status(quota.with_queue(state, granted), step)
        return Decision(
            status=status,
            queued=quota.to_read(state),
            requeue_after_seconds=SHORTEST_WAIT_SECONDS,
        )
    step = with_refusal(state, queueing.waiting_step(state))
    ends = [
        *(d.ends_at for d in deadlines(state)),
        *patience_ends(state, (refusal(state),)),
    ]
    waits = [
        max(SHORTEST_WAIT_SECONDS, (at - state.now).total_seconds()) for at in ends
    ]
    if query is not None:
        waits.append(LOOK_AGAIN_SECONDS)
    return Decision(
        status=_queued_status(state, step),
        apply=queueing.to_queue(state),
        lookups=() if query is None else (query,),
        queued=quota.to_read(state),
        requeue_after_seconds=min(waits, default=None),
    )


def _void(state: RunState) -> Decision:
    """Decide on a run that lost its quota before all was measured, and waits for it again."""
    if queueing.is_void(state):
        step = queueing.voided_step(state)
        anew = state.with_status(queueing.begun_anew(state))
        return Decision(
            status=_queued_status(anew, step),
            forget=True,
            requeue_after_seconds=SHORTEST_WAIT_SECONDS,
        )
    step = queueing.voided_step(state)
    noted = quota.with_queue(state, queueing.voided_queue(state))
    is_news = noted.status.queue != state.status.queue
    until = quota.leaves_until(state)
    waits = [LOOK_AGAIN_SECONDS]
    if until is not None:
        waits.append(
            max(SHORTEST_WAIT_SECONDS, (until - state.now).total_seconds())
        )
    return Decision(
        status=_with_step(noted, step),
        delete=queueing.to_void(state),
        events=(Event(step.reason, step.message, warning=True),) if is_news else (),
        requeue_after_seconds=SHORTEST_WAIT_SECONDS if is_news else min(waits),
    )


def _queued_status(state: RunState, step: PhaseStep) -> BenchmarkRunStatus:
    """Return the status of a run without a quota; the clock of the other deadlines stands still."""
    return _with_step(state, step).model_copy(update={"accepted_time": None})


def _go_on(
    state: RunState, *, server: Diagnosis | None, client: Diagnosis | None
) -> Decision:
    step = with_refusal(state, current_step(state, server=server, client=client))
    stored_now = create_and_release.to_store_now(state)
    statuses = server_status.server_statuses(state)
    wanted: tuple[Query[Any] | None, ...] = (
        *server_status.startups_wanted(state, statuses),
        *server_status.exporters_wanted(state),
        server_status.endpoint_pods(state),
        early_endings.hidden_cause(state),
        *unmade_pods(state),
    )
    update = {
        "servers": statuses,
        "progress": progress(state),
        "live": live(state.collected.samples.recent, state.now)
        or state.status.live,
        "truncated": server_status.truncations(state.served_spec, statuses),
    }
    status = _with_step(state, step).model_copy(update=update)
    return Decision(
        status=status,
        apply=(*create_and_release.missing_children(state), *stored_now),
        scrape=server_status.scrape_targets(state),
        pull=server_status.pull_target(state),
        queued=quota.to_read(state),
        lookups=tuple(query for query in wanted if query is not None),
        acknowledge=create_and_release.to_acknowledge(state, stored_now),
        events=_step_events(state, step),
        requeue_after_seconds=_seconds_to_next_pass(
            state.with_status(status), server=server, client=client
        ),
    )


def _end(
    state: RunState, end: Ending | None, *, server: Diagnosis | None
) -> Decision:
    """Decide on a run that gets no more records.

    The servers are released first. Storing the records, judging them and writing the result takes
    several reconciles.
    """
    words = (
        early_endings.last_words(state, end, server=server)
        if end is not None
        else None
    )
    log = server_status.compilations_wanted(state)
    waits = end is None and create_and_release.worth_waiting_to_store(state)
    query = _judging(state, end) if state.known else None
    judged = None if query is None else state.collected.answers.of(query)
    document = (
        judged.value.document
        if judged is not None and judged.value is not None
        else None
    )
    stored_now = (
        create_and_release.to_store_now(state, document)
        if waits
        else create_and_release.last_to_store(state, document)
    )
    let_go = Decision(
        status=_ending_status(state, end, waits=waits),
        last_words=words,
        delete=(
            *create_and_release.release_servers(state.facts),
            *(create_and_release.release_client(state) if end is not None else ()),
            *create_and_release.release_quota(state),
        ),
        apply=stored_now,
        pull=server_status.pull_target(state),
        lookups=(log,) if log is not None else (),
        acknowledge=create_and_release.to_acknowledge(state, stored_now),
        ending=end,
        # An answer of the judge wakes the run: a thousand runs that wait for it need not look.
        requeue_after_seconds=_seconds_to_store(state) if waits else None,
    )
    if (
        words is not None
        or waits
        or (log is not None and state.collected.answers.of(log) is None)
    ):
        return let_go
    if query is not None and judged is None:
        judged = _given_up(state)
        if (
            judged is None
            and state.collected.is_adopted
            and not state.collected.is_judging_counted
        ):
            return _count_judging(let_go)
        if judged is None:
            return replace(let_go, lookups=(*let_go.lookups, query))
    is_result_lost = False
    if document is not None and not _will_be_stored(state, document, stored_now):
        is_result_lost = True
        document = None
    status = _final_status(state, end, judged, document)
    status = _with_lost_records(state, status, is_result_lost=is_result_lost)
    reason = end.reason if end is not None else status.phase or "Completed"
    return replace(
        let_go,
        status=status,
        # The client has kept what could not be stored; it may drop that now.
        acknowledge=min(state.total_stages or 0, len(state.known))
        if state.client_runs and end is None
        else None,
        forget=True,
        events=(
            Event(reason, status.message or "", warning=status.phase == "Failed"),
        ),
        requeue_after_seconds=SHORTEST_WAIT_SECONDS,  # its client and its TTL are checked then
    )


def _judging(state: RunState, end: Ending | None) -> Judging:
    """Return the query for the judgement of all that was measured."""
    pod = state.client_pod
    progress = state.collected.client.progress
    image, digest = (
        (pod.image, pod.image_digest) if pod is not None else (None, None)
    )
    return Judging(
        end is not None,
        ending=_ending_of(end),
        instants=api.RunInstants(
            accepted_time=state.status.accepted_time,
            start_time=state.status.start_time,
            scheduled_time=state.status.scheduled_time,
            server_ready_time=state.status.server_ready_time,
            server_released_time=state.released_time,
        ),
        servers=tuple(server_status.server_statuses(state)),
        client=api.ClientStatus(
            image=image or state.spec.client.image,
            image_digest=digest,
            release=None if progress is None else progress.release,
            defaults=applied_fields(state.spec, names.ROLE_CLIENT, state.applied),
        ),
        unstored=create_and_release.unstored_stages(state),
        most_stages=state.most_stages,
        most_chunks=create_and_release.most_chunks(state),
    )


def _ending_of(end: Ending | None) -> api.EndingStatus | None:
    return (
        None
        if end is None
        else api.EndingStatus(reason=end.reason, message=sentence(end.message))
    )


def _will_be_stored(
    state: RunState, document: PackedResult, stored_now: Iterable[Manifest]
) -> bool:
    """Return whether the result document is in the cluster when the status is written."""
    name = names.result_name(state.owner.name, state.owner.uid, document.digest)
    is_written = any(
        manifest["metadata"]["name"] == name for manifest in stored_now
    )
    return is_written or create_and_release.result_is_stored(state, document)


def _seconds_to_store(state: RunState) -> float:
    """Return the seconds until refused records are tried again.

    That is 15 s, or less if a deadline passes earlier.
    """
    again = seconds_to_store_again(state) or STORE_AGAIN_SECONDS
    ends = [
        (deadline.ends_at - state.now).total_seconds()
        for deadline in deadlines(state)
    ]
    return max(SHORTEST_WAIT_SECONDS, min([again, *ends]))


def _given_up(state: RunState) -> Answer[Evaluation] | None:
    """Return the answer that the run is not judged, after `MAX_JUDGE_ATTEMPTS` attempts; else None.

    A judge that takes too much memory may end the operator too. Without this limit, each new
    operator would judge the run again.
    """
    attempts = state.status.judge_attempts or 0
    collected = state.collected
    may_try = not collected.is_adopted or collected.is_judging_counted
    if may_try or attempts < MAX_JUDGE_ATTEMPTS:
        return None
    return Answer(
        None, f"{attempts} operators in a row ended while they judged this run"
    )


def _count_judging(let_go: Decision) -> Decision:
    attempts = (let_go.status.judge_attempts or 0) + 1
    status = let_go.status.model_copy(update={"judge_attempts": attempts})
    return replace(let_go, status=status, counts_judging=True)


def _ending_status(
    state: RunState, end: Ending | None, *, waits: bool
) -> BenchmarkRunStatus:
    total = state.stages_in_words
    if end is None:
        step = PhaseStep(
            "Collecting",
            Reason.COLLECTING,
            f"all {total} stages are measured; the records are being judged",
            True,
        )
        step = with_refusal(state, step) if results_refused(state) else step
    else:
        step = PhaseStep(
            "Collecting",
            end.reason,
            f"{end.message}; what was measured is being judged",
        )
    return _with_step(state, step).model_copy(
        update={
            "servers": server_status.server_statuses(state),
            "progress": progress(state),
            "server_released_time": state.released_time,
            "blocked": blocked(state, "Records") if waits else None,
            "ending": _ending_of(end),
        }
    )


def _left_alone(facts: Facts, status: BenchmarkRunStatus, problem: str) -> Decision:
    """Leave a run alone that another operator version accepted and this version can't read.

    The run waits until that operator is back, or until it is cancelled. `benchrun-operator release`
    bounds how long its servers may be held.
    """
    message = sentence(
        f"accepted by an operator of another version; this one can't read the spec: {problem}"
    )
    ends = status.ending is not None or status.server_released_time is not None
    status = status.model_copy(update={"message": message})
    return Decision(
        status=status,
        delete=create_and_release.release_servers(facts) if ends else (),
    )


def _without_room(state: RunState) -> Decision:
    """Decide on a run that does not fit into memory: the run waits, and no deadline runs.

    Only a run that has not started waits. The spec of a started run is read in every reconcile.
    """
    step = PhaseStep(
        "Suspended" if state.spec.suspend else "Pending", Reason.NO_ROOM, NO_ROOM
    )
    waiting = {"accepted_time": None, "blocked": None}
    status = _with_step(state, step).model_copy(update=waiting)
    is_news = NO_ROOM not in (state.status.message or "")
    events = (Event(Reason.NO_ROOM, NO_ROOM, warning=True),) if is_news else ()
    return Decision(status=status, events=events)


def _refused(facts: Facts, status: BenchmarkRunStatus, problem: str) -> Decision:
    problem = sentence(problem)
    rows = api.ended_early("run", Reason.INVALID_SPEC, problem)
    ended = condition_table.standing(
        status, rows, "Failed", problem, of=facts.run, now=facts.now
    )
    return Decision(
        status=ended.model_copy(
            update={"verdict": "Unknown", "completion_time": timestamp(facts.now)}
        ),
        delete=create_and_release.release_all(facts),
        forget=True,
        events=(Event(Reason.INVALID_SPEC, problem, warning=True),),
    )


def _look_up_endpoint(
    state: RunState, query: EndpointPods | LabelledPods
) -> Decision:
    message = f"looking up the pods of {query.what}"
    if state.collected.answers.of(query) is not None:
        message = (
            f"{query.what} has no ready pods; the run starts when one is ready"
        )
    step = PhaseStep("Pending", Reason.WAITING_FOR_ENDPOINT, message)
    due = _seconds_to_next_pass(state, server=None, client=None)
    wait = min(ENDPOINT_LOOKUP_SECONDS, due or ENDPOINT_LOOKUP_SECONDS)
    return Decision(
        status=_with_step(state, step), lookups=(query,), requeue_after_seconds=wait
    )


def _with_step(state: RunState, step: PhaseStep) -> BenchmarkRunStatus:
    spec = state.spec
    message = sentence(step.message)
    step = replace(step, message=message)
    gate = None
    if spec.baseline is not None:
        means = [
            metric for metric in spec.baseline.metrics if not metric.startswith("P")
        ]
        gate = power_sentence(
            spec.most_repeats, len(load_points(spec)) * len(means), unit="repeats"
        )
    rows = condition_table.going_on(
        step, has_objectives=bool(spec.objectives), gate=gate
    )
    return condition_table.standing(
        state.status, rows, step.phase, message, of=state.facts.run, now=state.now
    )


def _step_events(state: RunState, step: PhaseStep) -> tuple[Event, ...]:
    is_news = state.status.phase != step.phase and step.phase in (
        "Running",
        "Suspended",
    )
    return (Event(step.phase, step.message),) if is_news else ()


def _seconds_to_next_pass(
    state: RunState, *, server: Diagnosis | None, client: Diagnosis | None
) -> float | None:
    """Return the seconds until a reconcile is needed without an event; None if none is.

    A deadline, a retry, the next live figures or replicas that may come and go need one.
    """
    found = (refusal(state), server, client)
    instants = [
        *(d.ends_at for d in deadlines(state)),
        *patience_ends(state, found),
    ]
    instants += unmade_at(state)
    no_pod = no_pod_at(state)
    instants += [no_pod] if no_pod is not None and no_pod > state.now else []
    waits = [(at - state.now).total_seconds() for at in instants]
    waits += [LOOK_AGAIN_SECONDS] if unmade_pods(state) else []
    waits += [_seconds_to_store(state)] if results_refused(state) else []
    if state.collected.samples.recent and server_status.scrape_targets(state):
        waits.append(state.facts.context.live_interval_seconds)
    if isinstance(server_status.endpoint_pods(state), LabelledPods):
        waits.append(ENDPOINT_LOOKUP_SECONDS)  # Replicas come and go.
    return max(SHORTEST_WAIT_SECONDS, min(waits)) if waits else None


def _final_status(
    state: RunState,
    end: Ending | None,
    judged: Answer[Evaluation] | None,
    document: PackedResult | None,
) -> BenchmarkRunStatus:
    """Return the status of the run as it ended.

    `judged` is None if nothing was measured, `document` is None if none is stored.
    """
    evaluation = judged.value if judged is not None else None
    found = evaluation.judgement if evaluation is not None else api.Judgement()
    ending = _ending_of(end)
    if judged is not None and evaluation is None:
        why_not = judged.problem or "unknown"
        if end is not None:
            message = sentence(
                f"{end.message}; what was measured is not judged: {why_not}"
            )
            ending = api.EndingStatus(reason=end.reason, message=message)
        found = _not_judged(state, why_not)
    ended = api.run_end(found, ending, has_objectives=bool(state.spec.objectives))
    status = _ended(state, ended, found, document)
    if ended.ending is None:
        return status.model_copy(
            update={"answer": api.answer_of(status.conditions)}
        )
    tail = (state.log_tail or "").encode()[-LOG_TAIL_BYTES:].decode(errors="ignore")
    return status.model_copy(
        update={"log_tail": api.plain_text(tail) if tail else None}
    )


def _not_judged(state: RunState, why_not: str) -> api.Judgement:
    """Return the judgement that the status holds if a run could not be judged."""
    message = (
        f"all {state.stages_in_words} stages are measured, but not judged: {why_not}. "
        "`benchrun judge` can do it later"
    )
    return api.Judgement(
        valid_reason=Reason.NOT_JUDGED,
        message=sentence(message),
        measured_anything=True,
    )


def _with_lost_records(
    state: RunState, status: BenchmarkRunStatus, *, is_result_lost: bool
) -> BenchmarkRunStatus:
    """Return the final status; if something could not be stored, it says what and why.

    `is_result_lost`: whether the result document is not stored.
    """
    stages = create_and_release.unstored_stages(state)
    refused = refusal(state)
    if refused is None or not (stages or is_result_lost):
        return status
    if stages:
        named = ", ".join(
            api.as_many_as_fit(stages, lambda stage: len(stage) + 2, NAMED_CHARS)
        )
        lost = (
            f"{len(stages)} of {len(state.known)} records could not be stored and can't be "
            f"evaluated again: {named}"
        )
    else:
        lost = "the result document could not be stored: only the results in this status are left"
    message = sentence(f"{lost}. {refused.message}")
    row: api.Row = ("Stored", "False", Reason.RECORDS_NOT_STORED, message)
    phase = str(status.phase)
    whole = sentence(f"{status.message}; {lost}")
    return condition_table.standing(
        status, (row,), phase, whole, of=state.facts.run, now=state.now
    )


def _ended(
    state: RunState,
    ended: api.RunEnd,
    found: api.Judgement,
    document: PackedResult | None,
) -> BenchmarkRunStatus:
    servers = server_status.server_statuses(state)
    reference = None
    if document is not None:
        reference = api.ResultDocumentRef(
            config_map=names.result_name(
                state.owner.name, state.owner.uid, document.digest
            ),
            sha256=document.digest,
            bytes=len(document.data),
        )
    missing = create_and_release.pruned(
        state,
        create_and_release.last_to_store(state, document),
        result=reference.config_map if reference is not None else None,
    )
    update = {
        "completion_time": timestamp(state.now),
        "server_released_time": state.released_time,
        "servers": servers,
        "progress": progress(state).model_copy(update={"stage": None}),
        "live": None,
        "ending": None,
        "blocked": None,
        "judge_attempts": None,
        "truncated": [
            *found.truncated,
            *server_status.truncations(state.served_spec, servers),
            *missing,
        ],
        "results_ref": f"{names.LABEL_RUN_UID}={state.owner.uid}"
        if state.known
        else None,
        "result_document": reference,
    }
    return condition_table.standing(
        state.status.judged(found).model_copy(update=update),
        ended.conditions,
        ended.phase,
        ended.message,
        of=state.facts.run,
        now=state.now,
    )


def rests(facts: Facts) -> bool:
    """Return whether a run has ended and needs no decision until it changes.

    This check is cheaper than a decision. An operator that starts makes it for each run, and there
    may be ten thousand ended ones.
    """
    if not is_settled(facts.run):
        return False
    held = Possessions(facts=facts, status=BenchmarkRunStatus())
    left = (
        *create_and_release.release_servers(facts),
        *create_and_release.release_client(held),
        *create_and_release.release_quota(held),
        *create_and_release.to_prune(held),
    )
    return not left


def is_settled(run: Run) -> bool:
    """Return whether a run has ended, and no time and no edit of it calls for a decision.

    Objects that it has left may still do.
    """
    observed = number(run.status.get("observedGeneration"), default=-1)
    return (
        not run.deleting
        and is_finished(run.status)
        and _ttl_seconds(run.spec) is None
        and observed == run.generation
    )


def _after_finish(state: Possessions) -> Decision:
    """Decide on a finished run: clean up, keep what fits, wait for the TTL, note the generation.

    A run that waits for its archive is looked at again when it is marked: that changes its status.
    A finished run never restarts. Only the TTL is read from its spec, since memory does not keep
    the rest.
    """
    ended = instant(state.status.completion_time) or state.now
    age_seconds = (state.now - ended).total_seconds()
    client = create_and_release.release_client(state)
    ttl = _ttl_seconds(state.facts.run.spec)
    leaves_by_itself = (
        api.is_true(state.status.conditions, "Complete")
        and age_seconds < CLIENT_LEAVES_SECONDS
    )
    expired = ttl is not None and age_seconds >= ttl
    waits = (
        [CLIENT_LEAVES_SECONDS - age_seconds] if client and leaves_by_itself else []
    )
    waits += [ttl - age_seconds] if ttl is not None and not expired else []
    servers_and_records = (
        *create_and_release.release_servers(state.facts),
        *create_and_release.release_quota(state),
        *create_and_release.to_prune(state),
    )
    return Decision(
        status=state.status.model_copy(
            update={"observed_generation": state.facts.run.generation}
        ),
        delete=servers_and_records
        if leaves_by_itself
        else (*servers_and_records, *client),
        forget=True,
        delete_run=expired and not create_and_release.awaits_archive(state.facts),
        requeue_after_seconds=min(waits, default=None),
    )


def _ttl_seconds(spec: Mapping[str, object]) -> int | None:
    given = number(spec.get("ttlSecondsAfterFinished"), default=-1)
    return given if given >= 0 else None
