"""Refusals: objects that the API server does not take, and a Job whose pod is not made."""

from dataclasses import replace
from datetime import datetime, timedelta

from benchrun import names
from benchrun.api import Reason
from benchrun.decide.condition_table import Step
from benchrun.decide.decision import RESULT_ROLES, RefusedObject
from benchrun.decide.run_state import RunState
from benchrun.observe import Diagnosis
from benchrun.observe.last_words import bounded

NO_POD_SECONDS = 10  # how long a Job may take to make its pod before that is worth saying
QUOTA = "exceeded quota"
_REMEDIES = {
    Reason.QUOTA_EXCEEDED: "The run continues when the namespace's quota has room.",
    Reason.CHILD_REFUSED: (
        "The run continues when admission policies and the operator's rights allow it."
    ),
    Reason.NOT_INSTALLED: "Install LeaderWorkerSet (https://lws.sigs.k8s.io), which servers over several nodes are made of; "
    "the run then continues by itself.",
}


def diagnose_refusal(refused: RefusedObject, *, server_field: str = "spec.server") -> Diagnosis:
    """Why it was refused, in the API server's words, and what to do."""
    words = bounded(refused.message).rstrip(". ")
    if refused.is_transient:
        message = f"{refused.kind} {refused.name} could not be created yet: {words}. It is retried."
        return Diagnosis(Reason.CHILD_REFUSED, message, False)
    what = f"{refused.kind} {refused.name} is refused by the API server: {words}"
    if not refused.curable:
        fields = {
            names.ROLE_CLIENT: "spec.client",
            **dict.fromkeys(names.SERVING_ROLES, server_field),
        }
        where = fields.get(refused.role, "the spec")
        return Diagnosis(
            Reason.CHILD_INVALID, f"{what}. Correct {where}; a new run is needed.", True
        )
    reason = Reason.QUOTA_EXCEEDED if QUOTA in refused.message else Reason.CHILD_REFUSED
    reason = Reason.NOT_INSTALLED if refused.is_kind_missing else reason
    return Diagnosis(reason, f"{what}. {_REMEDIES[reason]}", False)


def refusal(state: RunState) -> Diagnosis | None:
    """What is refused now, if anything. What was measured is never thrown away because it can't be
    stored."""
    if (refused := state.collected.refused_object) is None:
        return None
    found = diagnose_refusal(refused, server_field=f"spec.{state.spec.started_name}")
    return replace(found, terminal=False) if refused.role in RESULT_ROLES else found


def results_refused(state: RunState) -> bool:
    refused = state.collected.refused_object
    return refused is not None and refused.role in RESULT_ROLES


def no_pod_at(state: RunState) -> datetime | None:
    """When the status begins to say that the client's Job has no pod. The Job itself does not
    mention a quota on pods."""
    job = state.child("Job", names.ROLE_CLIENT)
    if job is None or job.created_at is None or state.client_pod is not None or state.begun:
        return None
    return job.created_at + timedelta(seconds=NO_POD_SECONDS)


def with_refusal(state: RunState, step: Step) -> Step:
    """The step, with what keeps it waiting if that is an object which does not come to be."""
    if (found := refusal(state)) is not None:
        return replace(step, reason=found.reason, message=found.message)
    if (since := no_pod_at(state)) is not None and state.now >= since:
        return replace(step, reason=Reason.NO_POD, message=no_pod(state))
    return step


def no_pod(state: RunState) -> str:
    """Where to look, for a Job whose pod is not made."""
    job = names.child_name(state.owner.name, state.owner.uid, names.ROLE_CLIENT)
    return (
        f"Job {job} has no pod: a quota or an admission policy may refuse it; `kubectl describe "
        f"job {job}` says why"
    )
