"""Refusals, instants and deadlines: what keeps a run waiting, and for how long.

Instants are noted in the status, and three deadlines are counted from them: waiting for a node, starting, running. 0 is no limit. Pods
that no node could take have a grace, since an autoscaler may add one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from benchrun import names
from benchrun.api import Condition, Reason, find_condition, timestamp
from benchrun.decide.condition_table import Step
from benchrun.decide.situation import Situation
from benchrun.decide.world import RefusedObject
from benchrun.observe.last_words import bounded
from benchrun.observe.untrusted_json import instant
from benchrun.observe.views import Diagnosis, Pod
from benchrun.plan.stages import estimate

RESULTS = (names.ROLE_STAGE, names.ROLE_TIMELINE)
NO_POD_SECONDS = 10
"""How long a Job may take to make its pod before that is worth saying."""
_QUOTA = "exceeded quota"
_REMEDIES = {
    Reason.QUOTA_EXCEEDED: "It goes on when the namespace's quota has room.",
    Reason.CHILD_REFUSED: "It goes on when an admission policy, or the operator's rights, let it pass.",
    Reason.NOT_INSTALLED: "Install LeaderWorkerSet (https://lws.sigs.k8s.io), which servers over several nodes are made of; "
    "it then goes on by itself.",
}


def diagnose_refusal(refused: RefusedObject, *, server_field: str = "spec.server") -> Diagnosis:
    """Why it was refused, in the API server's words, and what to do."""
    told = bounded(refused.message).rstrip(". ")
    if refused.is_transient:
        message = f"{refused.kind} {refused.name} could not be created yet: {told}. It is tried again."
        return Diagnosis(Reason.CHILD_REFUSED, message, False)
    what = f"{refused.kind} {refused.name} is refused by the API server: {told}"
    if not refused.curable:
        fields = {names.ROLE_CLIENT: "spec.client", **dict.fromkeys(names.SERVING_ROLES, server_field)}
        where = fields.get(refused.role, "the spec")
        return Diagnosis(Reason.CHILD_INVALID, f"{what}. Correct {where}; a new run is needed.", True)
    reason = _curable(refused)
    return Diagnosis(reason, f"{what}. {_REMEDIES[reason]}", False)


def _curable(refused: RefusedObject) -> str:
    if refused.is_kind_missing:
        return Reason.NOT_INSTALLED
    return Reason.QUOTA_EXCEEDED if _QUOTA in refused.message else Reason.CHILD_REFUSED


def refusal(situation: Situation) -> Diagnosis | None:
    """What is refused now, if anything. What was measured is never thrown away because it can't be stored."""
    refused = situation.collected.refused_object
    if refused is None:
        return None
    found = diagnose_refusal(refused, server_field=situation.spec.started_field)
    return replace(found, terminal=False) if refused.role in RESULTS else found


def results_refused(situation: Situation) -> bool:
    """Whether what was measured can't be stored now."""
    refused = situation.collected.refused_object
    return refused is not None and refused.role in RESULTS


def no_pod_at(situation: Situation) -> datetime | None:
    """When the status begins to say that the client's Job has no pod. The Job itself does not mention a quota on pods."""
    job = situation.child("Job", names.ROLE_CLIENT)
    if job is None or job.created_at is None or situation.client_pod is not None or situation.begun:
        return None
    return job.created_at + timedelta(seconds=NO_POD_SECONDS)


def with_refusal(situation: Situation, step: Step) -> Step:
    """The step, with what keeps it waiting if that is an object which does not come to be."""
    found = refusal(situation)
    if found is not None:
        return replace(step, reason=found.reason, message=found.message)
    since = no_pod_at(situation)
    if since is not None and situation.now >= since:
        return replace(step, reason=Reason.NO_POD, message=no_pod(situation))
    return step


def no_pod(situation: Situation) -> str:
    """Where to look, for a Job whose pod is not made."""
    job = names.child_name(situation.owner.name, situation.owner.uid, names.ROLE_CLIENT)
    return f"Job {job} has no pod: a quota or an admission policy may refuse it; `kubectl describe job {job}` says why"


CLIENT_GRACE_SECONDS = 30
"""The client gives up an endpoint by itself and says what it answered last; the operator only where that word does not come."""
_LAST_US = 253_402_300_799_000_000
"""The end of the year 9999: datetime has no later instant."""


def noticed(situation: Situation) -> Situation:
    """The situation with the instants that have come to pass; each is noted once and kept. The client's clock is believed only
    between what is known and now: it must not move a deadline."""
    status, heard, now = situation.status, situation.collected.client.progress, situation.now
    instants = [pod.scheduled_at for pod in situation.serving if pod.scheduled_at is not None]
    scheduled = max(instants) if len(instants) == situation.wanted_pods > 0 else None
    accepted = instant(status.accepted_time)
    healthy = began = None
    if heard is not None:
        healthy = believed(from_unix_us(heard.healthy_unix_us), first_seen=now, not_before=scheduled or accepted)
        began = believed(from_unix_us(heard.first_request_unix_us), first_seen=now, not_before=healthy or accepted)
    update = {
        "accepted_time": status.accepted_time or timestamp(now),
        "estimate": status.estimate or estimate(situation.spec),
        "scheduled_time": status.scheduled_time or (timestamp(scheduled) if scheduled is not None else None),
        "server_ready_time": status.server_ready_time or (timestamp(healthy) if healthy is not None else None),
        "start_time": status.start_time or (timestamp(began) if began is not None else None),
    }
    return replace(situation, status=status.model_copy(update=update))


def from_unix_us(micros: int | None) -> datetime | None:
    """Unix microseconds as an instant; None for what is none."""
    return datetime.fromtimestamp(micros / 1e6, tz=UTC) if micros is not None and 0 <= micros <= _LAST_US else None


def believed(claimed: datetime | None, *, first_seen: datetime, not_before: datetime | None) -> datetime | None:
    """What another clock says of something that happened after `not_before` and was heard of at `first_seen`, both by ours.

    Deadlines are counted from it: a clock that is ahead would move them away, one that is behind would end a run at once.
    """
    if claimed is None:
        return None
    latest = min(claimed, first_seen)
    return latest if not_before is None else max(latest, min(not_before, first_seen))


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant by which something must have happened."""

    reason: str
    ends_at: datetime
    message: str

    def passed(self, now: datetime) -> bool:
        """Whether it is too late."""
        return now >= self.ends_at


def deadlines(situation: Situation) -> tuple[Deadline, ...]:
    """Those that run now."""
    candidates = (
        _client_start(situation),
        _endpoint(situation),
        _pending(situation),
        _startup(situation),
        _run(situation),
    )
    return tuple(d for d in candidates if d is not None)


def _deadline(reason: str, since: datetime | None, seconds: int, message: str) -> Deadline | None:
    if since is None or seconds == 0:
        return None
    return Deadline(reason, since + timedelta(seconds=seconds), message)


def _client_start(situation: Situation) -> Deadline | None:
    """Until it is heard. Once the server was healthy the run's own deadline counts, whoever has heard the client."""
    pod, seconds = situation.client_pod, situation.spec.startup_deadline_seconds
    heard = situation.client_ready and (situation.server_exists or situation.client_heard)
    if heard or situation.status.server_ready_time is not None:
        return None
    if pod is None:
        return _client_creation(situation)
    message = f"the client was not ready within startupDeadlineSeconds ({seconds} s): {_why(pod.waiting_message, pod.unschedulable)}"
    return _deadline(Reason.STARTUP_DEADLINE, pod.created_at, seconds, message)


def _client_creation(situation: Situation) -> Deadline | None:
    """From acceptance until there is a pod. A Service's pods are looked for first; that has its own deadline."""
    refused, planned = refusal(situation), situation.has_plan
    if situation.spec.endpoint is not None and refused is None and not planned:
        return None
    seconds = situation.spec.startup_deadline_seconds
    why = refused.message if refused is not None else no_pod(situation)
    message = f"the client's pod was not created within startupDeadlineSeconds ({seconds} s): {why}"
    return _deadline(Reason.STARTUP_DEADLINE, instant(situation.status.accepted_time), seconds, message)


def _endpoint(situation: Situation) -> Deadline | None:
    if situation.spec.endpoint is None or situation.status.server_ready_time is not None:
        return None
    seconds, pod = situation.spec.startup_deadline_seconds, situation.client_pod
    message = f"the endpoint was not healthy within startupDeadlineSeconds ({seconds} s); check that it runs and answers /health"
    ready = _client_ready(situation)
    if ready is not None:
        grace = CLIENT_GRACE_SECONDS if seconds else 0
        return _deadline(Reason.STARTUP_DEADLINE, instant(ready.last_transition_time), seconds + grace, message)
    since = pod.created_at if pod is not None else instant(situation.status.accepted_time)
    return _deadline(Reason.STARTUP_DEADLINE, since, seconds, message)


def _pending(situation: Situation) -> Deadline | None:
    pods, seconds = situation.serving, situation.spec.pending_deadline_seconds
    if situation.status.server_ready_time is not None or situation.spec.started is None:
        return None
    unmade = next((role for role in situation.server_roles if not situation.serving_as(role)), None)
    if unmade is not None:
        return _server_creation(situation, unmade)
    waiting = next((pod for pod in pods if pod.scheduled_at is None), None)
    if waiting is None:
        return None
    message = f"no node took the server within pendingDeadlineSeconds ({seconds} s): {_why(waiting.unschedulable)}"
    return _deadline(Reason.PENDING_DEADLINE, waiting.created_at, seconds, message)


def _server_creation(situation: Situation, role: str) -> Deadline | None:
    """From the client being ready until there is a pod of that role: the Deployment is refused, or its pods are."""
    ready = _client_ready(situation)
    if not situation.client_ready or ready is None:
        return None
    workload = situation.workload(role)
    refused, seconds = refusal(situation), situation.spec.pending_deadline_seconds
    why = _why(refused.message if refused is not None else workload.failure if workload is not None else None)
    message = f"the server's pod was not created within pendingDeadlineSeconds ({seconds} s): {why}"
    return _deadline(Reason.PENDING_DEADLINE, instant(ready.last_transition_time), seconds, message)


def _startup(situation: Situation) -> Deadline | None:
    pods = situation.serving
    if situation.spec.started is None or situation.status.server_ready_time is not None or not pods:
        return None
    seconds = situation.spec.startup_deadline_seconds
    pod = next((each for each in pods if not each.ready), pods[-1])
    why = _why(
        pod.waiting_message, pod.waiting_reason, "it was still loading; raise the deadline if the model needs longer"
    )
    message = f"the server was not healthy within startupDeadlineSeconds ({seconds} s) of being scheduled: {why}"
    since = instant(situation.status.scheduled_time) or pod.scheduled_at
    return _deadline(Reason.STARTUP_DEADLINE, since, seconds, message)


def _run(situation: Situation) -> Deadline | None:
    seconds = situation.spec.run_deadline_seconds
    done, total = len(situation.known), situation.stages_in_words
    message = (
        f"{done} of {total} stages were measured within runDeadlineSeconds ({seconds} s); raise it or measure less"
    )
    return _deadline(Reason.RUN_DEADLINE, instant(situation.status.server_ready_time), seconds, message)


def _client_ready(situation: Situation) -> Condition | None:
    """The condition ClientReady, with the instant of its change; None: by the last status the client is not ready."""
    found = find_condition(situation.status.conditions, "ClientReady")
    return found if found is not None and found.status == "True" else None


def _why(*texts: str | None) -> str:
    return next((t for t in texts if t), f"see the pod's events (label {names.LABEL_RUN})")


def with_grace(situation: Situation, found: Diagnosis | None, pods: Iterable[Pod]) -> Diagnosis | None:
    """The diagnosis, not terminal as long as an autoscaler may still add the node."""
    if found is None or not found.terminal or found.reason != Reason.UNSCHEDULABLE or not _graces(situation, pods):
        return found
    seconds = situation.world.context.unschedulable_grace_seconds
    return replace(found, message=f"{found.message} Waiting {seconds} s for such a node to be added.", terminal=False)


def grace_ends(situation: Situation) -> tuple[datetime, ...]:
    """When graces that run now end: nothing else would tell."""
    return () if situation.begun else _graces(situation, (*situation.client_pods, *situation.server_pods))


def _graces(situation: Situation, pods: Iterable[Pod]) -> tuple[datetime, ...]:
    """When those of these pods that run now end."""
    grace = timedelta(seconds=situation.world.context.unschedulable_grace_seconds)
    waiting = (pod for pod in pods if pod.unschedulable is not None and not pod.deleting)
    ends = (pod.created_at + grace for pod in waiting if pod.created_at is not None)
    return tuple(end for end in ends if end > situation.now)
