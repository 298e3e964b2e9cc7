"""Specs and objects that are refused, by the operator or by the API server: it is said, and waited while it may change."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import ValidationError

from benchrun import names
from benchrun.api import BenchmarkRunSpec, Reason, first_problem, without
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.status import MAX_ROWS
from benchrun.decide.collected import RefusedObject
from benchrun.decide.situation import Situation
from benchrun.decide.step import Step
from benchrun.observe.last_words import bounded
from benchrun.observe.views import Diagnosis, Run, Sweep
from benchrun.plan.stages import cells
from benchrun.plan.variants import Variant, variants

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
    """When it is to be said that the client's Job has no pod. The Job itself tells nothing of a quota on pods."""
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


# ---- acceptance -------------------------------------------------------------------------------------------------------
# Whether the spec of a run or a sweep can be acted on: what the API server checked is checked again, since an object may be older
# than a rule.


class Unacceptable(ValueError):
    """The spec can't be acted on; the text names the field and what is wrong with it."""


def accept(run: Run, *, begun: bool = False) -> BenchmarkRunSpec:
    """The spec, checked. Raises Unacceptable naming the field's path.

    `begun`: the run has a server or records. What they are made of is settled, so that a field of a newer operator, which made
    them, is left out; before, a server without it would be another experiment.
    """
    try:
        return BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        if begun and all(each["type"] == "extra_forbidden" for each in error.errors(include_url=False)):
            return accept(replace(run, spec=without(run.spec, [each["loc"] for each in error.errors()])))
        raise Unacceptable(first_problem(error)) from error


def accept_sweep(sweep: Sweep) -> tuple[BenchmarkSweepSpec, tuple[Variant, ...]]:
    """The spec, checked, and its variants: all are made before any run is. Raises Unacceptable naming the field's path."""
    try:
        spec = BenchmarkSweepSpec.model_validate(sweep.spec)
        made = variants(spec)
    except ValidationError as error:
        raise Unacceptable(first_problem(error)) from error
    except ValueError as error:
        raise Unacceptable(str(error)) from error
    points = len(cells(spec.template))
    if len(made) * points > MAX_ROWS:
        raise Unacceptable(
            f"spec.template.workloads: {len(made)} variants x {points} load points = {len(made) * points} rows; "
            f"the limit is {MAX_ROWS}"
        )
    return spec, made
