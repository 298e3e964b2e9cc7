"""Objects that the API server refuses, and accepted objects whose pods are not made."""

from dataclasses import replace
from datetime import datetime, timedelta

from benchrun import names
from benchrun.api import Reason
from benchrun.child_kinds import LEADER_WORKER_SET, WORKLOAD
from benchrun.decide.condition_table import PhaseStep
from benchrun.decide.decision import RESULT_ROLES, PodsRefused, RefusedObject
from benchrun.decide.patience import with_patience
from benchrun.decide.run_state import RunState
from benchrun.observe import (
    Diagnosis,
    Patience,
    Place,
    diagnosed_refusal,
    is_ruling_on_valid,
    refusal_of,
)
from benchrun.observe.last_words import bounded
from benchrun.plan import (
    COMPILE_CLAIM,
    MODEL_CLAIM,
    applied_fields,
    claims_by_default,
    division_of,
    nodes,
    role_replicas,
)

NO_POD_SECONDS = 10
"""Seconds that a Job may take to make its pod before the status reports the delay."""
UNMADE_SECONDS = 3  # seconds that an object may take to make its pods before the cause is queried
# seconds between two queries for the cause while pods are missing
LOOK_AGAIN_SECONDS = 10.0
# seconds between two attempts to store records that were refused
STORE_AGAIN_SECONDS = 15
_NOT_INSTALLED = {
    LEADER_WORKER_SET: (
        "Install LeaderWorkerSet (https://lws.sigs.k8s.io), which servers over several nodes are "
        "made of; the run then continues by itself."
    ),
    WORKLOAD: (
        "Install Kueue (https://kueue.sigs.k8s.io), one of whose queues the run's label "
        f"{names.LABEL_QUEUE} names; the run then continues by itself."
    ),
}
"""What to do where the cluster lacks a kind."""


def diagnose_refusal(
    refused: RefusedObject, *, server_field: str = "spec.server"
) -> Diagnosis:
    """Diagnose why the object was refused, in the API server's words, and say what to do."""
    place = Place(refused.role, server_field)
    words = bounded(refused.message).rstrip(". ")
    if refused.is_transient:
        message = f"{refused.kind} {refused.name} could not be created yet: {words}. It is retried."
        return Diagnosis(Reason.CHILD_REFUSED, message, False, Patience.RETRIED)
    what = f"{refused.kind} {refused.name} is refused by the API server: {words}"
    if refused.is_kind_missing:
        message = f"{what}. {_NOT_INSTALLED.get(refused.kind, '')}"
        return Diagnosis(Reason.NOT_INSTALLED, message, False, Patience.RETRIED)
    if not refused.curable and not is_ruling_on_valid(refused.message):
        where = place.part if place.has_pod else "the spec"
        message = f"{what}. Correct {where}; a new run is needed."
        return Diagnosis(Reason.CHILD_INVALID, message, True)
    return diagnosed_refusal(
        refusal_of(refused.message, place), what, Reason.CHILD_REFUSED
    )


def refusal(state: RunState) -> Diagnosis | None:
    """Diagnose the object that the API server refuses now; None if it refuses none.

    The diagnosis is terminal once the time limit after which a refusal ends the run has passed. A
    refused record never ends the run: measurements are not dropped because they can't be stored.
    """
    return with_patience(state, refused_now(state))


def refused_now(state: RunState) -> Diagnosis | None:
    """Diagnose the object that the API server refuses now; None if it refuses none.

    Unlike `refusal`, this does not apply the time limit after which a refusal ends the run.
    """
    if (refused := state.collected.refused_object) is None:
        return None
    found = diagnose_refusal(
        refused, server_field=f"spec.{state.spec.started_name}"
    )
    if not refused.is_transient and (hint := _platform_hint(state, refused.role)):
        found = replace(found, message=f"{found.message} {hint}")
    is_result = refused.role in RESULT_ROLES
    return replace(found, terminal=False, patience=None) if is_result else found


MAX_HINT_CHARS = 200


def _platform_hint(state: RunState, role: str) -> str:
    """Return a sentence on the fields that the platform's defaults set in the role's pods."""
    if role not in (names.ROLE_CLIENT, *state.server_roles):
        return ""
    fields = ", ".join(applied_fields(state.spec, role, state.applied))
    if not fields:
        return ""
    return (
        f"The platform's defaults (the chart's runs) set {fields[:MAX_HINT_CHARS]}: "
        "ask your administrator to change them."
    )


def with_claim_hint(state: RunState, found: Diagnosis | None) -> Diagnosis | None:
    """Return the diagnosis; if it names a claim of the platform, with a hint that says so."""
    if found is None or state.spec.started is None:
        return found
    fields = {
        MODEL_CLAIM: "spec.model.source.hub.cacheClaim",
        COMPILE_CLAIM: f"spec.{state.spec.started_name}.compileCacheClaim",
    }
    given = claims_by_default(state.spec, names.ROLE_SERVER, state.applied)
    for value, claim in given.items():
        if f'claim "{claim}"' in found.message:
            hint = (
                f"{claim} is the platform's default (the chart's runs.{value}): create it in "
                f"namespace {state.owner.namespace}, or give {fields[value]} in a new run, "
                '"" for none.'
            )
            return replace(found, message=f"{found.message} {hint}")
    return found


def results_refused(state: RunState) -> bool:
    refused = state.collected.refused_object
    return refused is not None and refused.role in RESULT_ROLES


def seconds_to_store_again(state: RunState) -> float:
    """Return the seconds until refused records are tried again; 0: now."""
    since = state.collected.refused_at
    if not results_refused(state) or since is None:
        return 0.0
    return max(0.0, STORE_AGAIN_SECONDS - (state.now - since).total_seconds())


def unmade_pods(state: RunState) -> tuple[PodsRefused, ...]:
    """Return the queries for objects that should have made their pods by now but have not.

    Only events say why. A Deployment needs no query: its status says why.
    """
    return tuple(query for due, query in _without_pods(state) if state.now >= due)


def unmade_at(state: RunState) -> tuple[datetime, ...]:
    """Return when to query why pods are not made, because no watch event says why.

    This includes the Job that this reconcile is about to create: if its pods are refused, there is
    no watch event of the Job at all.
    """
    soon = tuple(due for due, _ in _without_pods(state) if due > state.now)
    has_job = state.child("Job", names.ROLE_CLIENT) is not None
    waits = state.collected.refused_object is not None or _has_no_plan_yet(state)
    if state.begun or has_job or waits:
        return soon
    return (*soon, state.now + timedelta(seconds=UNMADE_SECONDS))


def _has_no_plan_yet(state: RunState) -> bool:
    """Return whether the run measures an endpoint and has no plan yet.

    The pods of an endpoint are queried before its plan and Job are made.
    """
    return state.spec.endpoint is not None and state.plan is None


def _without_pods(state: RunState) -> tuple[tuple[datetime, PodsRefused], ...]:
    """Return the queries for objects that lack pods, each with the instant when it is due."""
    if state.begun:
        return ()
    job = state.child("Job", names.ROLE_CLIENT)
    group = state.workload(names.ROLE_SERVER) if nodes(state.spec) > 1 else None
    found = []
    if (
        job is not None
        and len(state.client_pods) < division_of(state.effective).pods
    ):
        found.append((job, PodsRefused("Job", job.name, job.uid)))
    if group is not None and len(state.serving_as(names.ROLE_SERVER)) < wanted_pods(
        state, names.ROLE_SERVER
    ):
        found.append((group, PodsRefused("StatefulSet", group.name)))
    late = timedelta(seconds=UNMADE_SECONDS)
    return tuple(
        (child.created_at + late, query)
        for child, query in found
        if child.created_at is not None
    )


def wanted_pods(state: RunState, role: str) -> int:
    """Return how many pods a serving role should have."""
    return role_replicas(state.spec)[role] * nodes(state.spec)


def why_unmade(state: RunState, kind: str) -> str | None:
    """Return why pods of the client's Job, or of a group, are not made, in the API server's words.

    None if they are made, or no event says why.
    """
    asked = (query for query in unmade_pods(state) if query.kind == kind)
    return state.collected.answers.value(next(asked, None)) or None


def no_pod_at(state: RunState) -> datetime | None:
    """Return when the status begins to say that the client's Job has no pod; None if it has one.

    The Job's own status does not say that a quota refused its pods.
    """
    job = state.child("Job", names.ROLE_CLIENT)
    if (
        job is None
        or job.created_at is None
        or state.client_pod is not None
        or state.begun
    ):
        return None
    return job.created_at + timedelta(seconds=NO_POD_SECONDS)


def with_refusal(state: RunState, step: PhaseStep) -> PhaseStep:
    """Return the step, with the refusal that keeps it waiting as reason and message.

    A run that waits for a refused object is Pending and not WaitingForNode: no node would help.
    """
    if (found := refusal(state)) is not None:
        phase = "Pending" if step.phase == "WaitingForNode" else step.phase
        return replace(
            step, phase=phase, reason=found.reason, message=found.message
        )
    since = no_pod_at(state)
    is_known = step.reason != Reason.PREPARING_CLIENT
    if since is not None and state.now >= since and not is_known:
        return replace(step, reason=Reason.NO_POD, message=no_pod(state))
    return step


def no_pod(state: RunState) -> str:
    """Return the message for a Job without a pod: with which command to look for the cause."""
    job = names.child_name(state.owner.name, state.owner.uid, names.ROLE_CLIENT)
    return f"Job {job} has no pod, and no event says why; `kubectl describe job {job}` may"
