"""Checks of the namespace, and of the rights of the user and the operator in it."""

import json
from collections.abc import Iterator

from benchrun import names
from benchrun.doctor.asking import (
    ApiAnswers,
    ApiQuery,
    Check,
    CheckLine,
    labels_of,
    metadata_of,
    ok,
    problem,
    unread,
    warning,
)
from benchrun.doctor.dry_runs import resource_of
from benchrun.doctor.operators import FoundOperator
from benchrun.doctor.target import RunTarget
from benchrun.observe import untrusted_json as raw

_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
# Label or annotation that puts a namespace into a mesh -> the value that turns it off. Sidecars of
# other meshes show in the dry runs of pods.
_MESHES = {
    "istio-injection": "disabled",
    "istio.io/rev": "",
    "istio.io/dataplane-mode": "none",
    "linkerd.io/inject": "disabled",
    "kuma.io/sidecar-injection": "disabled",
}


def namespace_query(namespace: str) -> ApiQuery:
    """Build the query for the namespace itself."""
    return ApiQuery(f"/api/v1/namespaces/{namespace}")


def namespace_check(namespace: str) -> Check:
    """Check that the namespace exists, and that no service mesh adds proxies to its pods."""
    query = namespace_query(namespace)
    return Check((query,), lambda answers: list(_namespace(answers, namespace)))


def _namespace(answers: ApiAnswers, namespace: str) -> Iterator[CheckLine]:
    answer = answers.of(namespace_query(namespace))
    subject = f"namespace {namespace}"
    if answer.trouble == "NotFound":
        yield problem(
            "namespace",
            subject=subject,
            sentence="does not exist",
            remedy=f"kubectl create namespace {namespace}",
        )
        return
    if answer.trouble:
        yield unread("namespace", subject, answer, "get namespaces")
        return
    if metadata_of(answer.found).get("deletionTimestamp"):
        yield problem(
            "namespace",
            subject=subject,
            sentence="is being deleted",
            remedy="Use another namespace.",
        )
        return
    level = labels_of(answer.found).get("pod-security.kubernetes.io/enforce")
    yield ok(
        "namespace",
        subject=subject,
        sentence=f"exists; its Pod Security level is {raw.text(level) or 'not set'}",
    )
    notes = raw.mapping(metadata_of(answer.found).get("annotations"))
    marks = {**labels_of(answer.found), **notes}
    meshes = [
        f"{key}={raw.text(marks[key])}"
        for key, off in _MESHES.items()
        if key in marks and marks[key] != off
    ]
    if meshes:
        yield warning(
            "mesh",
            subject=subject,
            sentence="pods in this namespace get proxies from a service mesh "
            f"({', '.join(meshes)}): the proxies add to every latency, and a sidecar that does not "
            "end keeps the client's Job running",
            remedy="Use a namespace without a mesh.",
        )


def _review(
    namespace: str, verb: str, group: str, plural: str, user: str
) -> ApiQuery:
    """Build the query of whether a user may do this; an empty `user` stands for the caller."""
    wanted = {
        "namespace": namespace,
        "verb": verb,
        "group": group,
        "resource": plural,
    }
    spec = {"resourceAttributes": wanted, **({"user": user} if user else {})}
    kind = "LocalSubjectAccessReview" if user else "SelfSubjectAccessReview"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"namespace": namespace} if user else {},
        "spec": spec,
    }
    place = f"/namespaces/{namespace}" if user else ""
    path = f"{_AUTHORIZATION}{place}/{kind.lower()}s"
    return ApiQuery(path, json.dumps(body))


def rights_check(target: RunTarget, operator: FoundOperator | None) -> Check:
    """Check that the user may create runs, and the operator the objects of a run."""
    mine = _review(target.namespace, "create", names.GROUP, names.PLURAL, "")
    theirs: dict[str, ApiQuery] = {}
    if operator is not None and operator.account:
        kinds = {resource_of(each) for each in target.objects}
        theirs = {
            plural: _review(
                target.namespace, "create", group, plural, operator.user
            )
            for group, _, plural in sorted(kinds)
        }

    def read(answers: ApiAnswers) -> Iterator[CheckLine]:
        yield _mine(answers, mine, target.namespace)
        if operator is not None and theirs:
            yield _theirs(answers, theirs, operator, target.namespace)

    return Check((mine, *theirs.values()), lambda answers: list(read(answers)))


def _allowed(answers: ApiAnswers, query: ApiQuery) -> bool | None:
    """Return what a review answered; None if it was not answered."""
    status = raw.mapping(answers.of(query).found.get("status"))
    allowed = status.get("allowed")
    return allowed if isinstance(allowed, bool) else None


def _mine(answers: ApiAnswers, query: ApiQuery, namespace: str) -> CheckLine:
    subject = "your rights"
    allowed = _allowed(answers, query)
    if allowed is None:
        return unread(
            "rights", subject, answers.of(query), "review your own access"
        )
    if allowed:
        return ok(
            "rights",
            subject=subject,
            sentence=f"you may create {names.PLURAL} in namespace {namespace}",
        )
    return problem(
        "rights",
        subject=subject,
        sentence=f"you may not create {names.PLURAL} in namespace {namespace}",
        remedy=f"Ask an administrator for the ClusterRole edit in namespace {namespace}.",
    )


def _theirs(
    answers: ApiAnswers,
    queries: dict[str, ApiQuery],
    operator: FoundOperator,
    namespace: str,
) -> CheckLine:
    subject = f"rights of {operator.user}"
    allowed = {what: _allowed(answers, query) for what, query in queries.items()}
    if lacking := [what for what, given in allowed.items() if given is False]:
        return problem(
            "operator-rights",
            subject=subject,
            sentence=f"the operator may not create {', '.join(lacking)} in namespace {namespace}",
            remedy="Install the chart with these rights (docs/install.md).",
        )
    if unknown := [what for what, given in allowed.items() if given is None]:
        return unread(
            "operator-rights",
            subject,
            answers.of(queries[unknown[0]]),
            "create localsubjectaccessreviews",
            namespace=namespace,
        )
    return ok(
        "operator-rights",
        subject=subject,
        sentence=f"the operator may create {', '.join(allowed)} in namespace {namespace}",
    )
