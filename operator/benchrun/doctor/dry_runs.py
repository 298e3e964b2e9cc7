"""Dry runs: the API server admits every object and pod of the run without storing it.

A Deployment is admitted even if its pods are not, so pods have dry runs of their own. A refusal is
read as the operator reads it, and gets the same remedy.
"""

import json
import re
from collections.abc import Iterator, Mapping

from benchrun.doctor.asking import (
    ApiAnswer,
    ApiAnswers,
    ApiQuery,
    Check,
    CheckLine,
    named,
    not_checked,
    ok,
    problem,
    warning,
)
from benchrun.doctor.operators import FoundOperator
from benchrun.doctor.target import Manifest, PlannedPod, RunTarget
from benchrun.names import LABEL_ROLE
from benchrun.observe import Means, Place, refusal_of, untrusted_json as raw

_LACKS_RIGHT = re.compile(
    # Since Kubernetes 1.36: impersonate-on:serviceaccount:create.
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+)(?:-on:[\w:-]+)?'
    r' resource "(?P<resource>[^"]*)"'
)


def resource_of(manifest: Manifest) -> tuple[str, str, str]:
    """Return the API group, version and plural name of an object's kind."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    lower = manifest["kind"].lower()
    plural = f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
    return group, version, plural


def dry_run(manifest: Manifest, namespace: str, *, account: str = "") -> ApiQuery:
    """Build the query for a dry run of an object, in the name of `account`.

    Without an account it is sent in the caller's own name. The object then has no owner reference:
    some clusters let only those set one who have rights over the owner.
    """
    metadata = {
        key: value
        for key, value in manifest["metadata"].items()
        if account or key != "ownerReferences"
    }
    group, version, plural = resource_of(manifest)
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    body = json.dumps(
        {**manifest, "metadata": {**metadata, "namespace": namespace}}, default=str
    )
    path = f"{base}/namespaces/{namespace}/{plural}?dryRun=All"
    return ApiQuery(path, body, account)


def dry_run_check(
    target: RunTarget, operator: FoundOperator | None, *, as_operator: bool
) -> Check:
    """Check that the API server would admit each object and each pod.

    With `as_operator`, objects are sent in the name of the operator's account, and pods in the name
    of the controllers that create them.
    """
    user = operator.user if as_operator and operator is not None else ""
    objects = {
        dry_run(each, target.namespace, account=user): each
        for each in target.objects
    }
    pods = {
        pod_query(pod, target.namespace, as_operator=as_operator): pod
        for pod in target.pods
    }

    def read(answers: ApiAnswers) -> Iterator[CheckLine]:
        yield from _objects(answers, objects, target)
        for query, pod in pods.items():
            yield from _pod(answers.of(query), pod)

    return Check((*objects, *pods), lambda answers: list(read(answers)))


def pod_query(pod: PlannedPod, namespace: str, *, as_operator: bool) -> ApiQuery:
    """Build the query for a dry run of a pod, possibly in the name of its controller."""
    account = pod.account if as_operator else ""
    return dry_run(pod.manifest, namespace, account=account)


def _objects(
    answers: ApiAnswers, objects: Mapping[ApiQuery, Manifest], target: RunTarget
) -> Iterator[CheckLine]:
    """Yield a line for each object that is refused, and one line for all that are admitted."""
    admitted: list[str] = []
    for query, manifest in objects.items():
        answer = answers.of(query)
        kind = manifest["kind"]
        if not answer.trouble:
            admitted.append(kind)
            continue
        role = manifest["metadata"]["labels"][LABEL_ROLE]
        subject = f"{kind} of {role}"
        place = Place(role, f"spec.{target.spec.started_name}")
        yield refused("object", subject, answer, place)
    if admitted:
        yield ok(
            "object",
            subject="objects of the run",
            sentence=f"would be admitted: {', '.join(dict.fromkeys(admitted))}",
        )


def _pod(answer: ApiAnswer, pod: PlannedPod) -> Iterator[CheckLine]:
    """Yield whether a pod is admitted, and which containers and CPU limits the cluster adds."""
    if answer.trouble:
        yield refused("pod", pod.subject, answer, pod.place)
        return
    yield ok("pod", subject=pod.subject, sentence="would be admitted")
    admitted = raw.mapping(answer.found.get("spec"))
    sent = {each["name"] for each in pod.containers}
    got = [
        raw.text(each.get("name"))
        for key in ("initContainers", "containers")
        for each in raw.mappings(admitted.get(key))
    ]
    if added := [name for name in got if name not in sent]:
        yield warning(
            "injected",
            subject=pod.subject,
            sentence=f"the cluster adds containers to it: {named(added)}",
            remedy="They are part of what is measured, and one that does not end keeps the "
            "client's Job running: use a namespace where they are not injected.",
        )
    before = _cpu_limits(pod.spec)
    if after := sorted(_cpu_limits(admitted) - before - {*added}):
        yield warning(
            "cpu-limit",
            subject=pod.subject,
            sentence=f"the cluster gives a CPU limit to {named(after)}, which stops it for up to "
            "100 ms at a time",
            remedy="Use a namespace whose LimitRange has no default for limits.cpu, or set one "
            f"that is high enough in {pod.place.resources}.",
        )


def _cpu_limits(spec: raw.Object) -> set[str]:
    """Return the names of the containers that have a CPU limit."""
    return {
        raw.text(each.get("name"))
        for each in raw.mappings(spec.get("containers"))
        if "cpu" in raw.mapping(raw.mapping(each.get("resources")).get("limits"))
    }


def refused(name: str, subject: str, answer: ApiAnswer, place: Place) -> CheckLine:
    """Build the line for a dry run that was refused or failed."""
    if (lacks := _LACKS_RIGHT.search(answer.words)) is not None:
        return _without_right(name, subject, lacks)
    if answer.trouble == "NotFound" and "could not find" in answer.words:
        return problem(
            name,
            subject=subject,
            sentence="the cluster does not have this kind",
            remedy="Install LeaderWorkerSet (https://lws.sigs.k8s.io), which servers over several "
            "nodes are made of.",
        )
    if answer.trouble == "Failed":
        return not_checked(
            name, subject=subject, sentence=answer.words, remedy="Run this again."
        )
    found = refusal_of(answer.words, place)
    if found.means == Means.RETRY:
        return not_checked(
            name,
            subject=subject,
            sentence=f"could not be decided now: {found.words}",
            remedy="A run is retried for ten minutes. If this lasts, fix what the message names.",
        )
    make = warning if found.means == Means.QUOTA else problem
    return make(
        name,
        subject=subject,
        sentence=f"refused: {found.words}",
        remedy=found.remedy,
    )


def _without_right(name: str, subject: str, lacks: re.Match[str]) -> CheckLine:
    """Build the NotChecked line for a dry run whose user lacks the right to create the object."""
    user = lacks["user"]
    right = f"{lacks['verb']} {lacks['resource']}"
    if lacks["verb"] == "impersonate":
        return not_checked(
            name,
            subject=subject,
            sentence=f"{user} may not act in the name of another account",
            remedy="Leave out --as-operator, or have a cluster administrator run this.",
        )
    return not_checked(
        name,
        subject=subject,
        sentence=f"{user} may not {right}; creating runs does not need this right",
        remedy=f"Ask for the right to {right}, or have a cluster administrator run this with "
        "--as-operator.",
    )
