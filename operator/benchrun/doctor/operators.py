"""Checks of the operator: is one installed and ready, does it lead, and are the kinds its own?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from benchrun import names
from benchrun.api.crd import RUN, SWEEP
from benchrun.doctor.asking import (
    ApiAnswer,
    ApiAnswers,
    ApiQuery,
    Check,
    CheckLine,
    labels_of,
    listed,
    metadata_of,
    name_of,
    named,
    not_checked,
    ok,
    problem,
    unread,
    warning,
)
from benchrun.observe import untrusted_json as raw
from benchrun.plan import (
    MAX_DEFAULTS_BYTES,
    NO_DEFAULTS,
    OPERATOR_LABELS,
    RunDefaults,
)

HOME = "benchrun-system"
"""Namespace of the operator in the documentation. Doctor looks there if the user may not list the
Deployments of the whole cluster."""
LEASE = "benchrun-operator"
_DEFAULTS = "BENCHRUN_RUN_DEFAULTS"
UNKNOWN_IMAGE = "benchrun-client"  # Stands for the client's image if it is unknown.
OLDEST = (1, 29)  # Oldest supported version of Kubernetes.
_SELECTOR = ",".join(f"{key}%3D{value}" for key, value in OPERATOR_LABELS.items())


@dataclass(frozen=True, slots=True)
class FoundOperator:
    """An operator as its Deployment describes it. Fields keep their defaults if it is unknown."""

    namespace: str = HOME
    name: str = ""
    account: str = ""
    version: str = ""
    client_image: str = UNKNOWN_IMAGE
    pull_policy: str = "IfNotPresent"
    namespaces: tuple[str, ...] = ()  # Namespaces that it watches; all if empty.
    lease: str = LEASE
    network_policies: bool = False
    """Whether it creates NetworkPolicies for every run."""
    available: int = 0
    defaults: RunDefaults | None = NO_DEFAULTS
    """The platform's defaults; None if this command can't parse them."""

    @property
    def user(self) -> str:
        """Return the user name of its ServiceAccount."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    def watches(self, namespace: str) -> bool:
        """Return whether the operator works in the namespace."""
        return not self.namespaces or namespace in self.namespaces


def deployments(home: str) -> tuple[ApiQuery, ApiQuery]:
    """Build two queries for operators: in the whole cluster, and in the namespace `home`."""
    return (
        listed("/apis/apps/v1/deployments", _SELECTOR),
        listed(f"/apis/apps/v1/namespaces/{home}/deployments", _SELECTOR),
    )


def operators_in(
    answers: ApiAnswers, home: str
) -> tuple[FoundOperator, ...] | None:
    """Return the installed operators; None if the user may not list them."""
    everywhere, at_home = (answers.of(query) for query in deployments(home))
    if everywhere.is_whole:
        return tuple(map(operator_of, everywhere.items))
    # Without one at home, there may still be one elsewhere.
    return tuple(map(operator_of, at_home.items)) or None


def operator_of(deployment: raw.Object) -> FoundOperator:
    """Read the operator's settings from its Deployment."""
    spec = raw.mapping(deployment.get("spec"))
    pod = raw.mapping(raw.mapping(spec.get("template")).get("spec"))
    container = next(raw.mappings(pod.get("containers")), {})
    variables = {
        raw.text(each.get("name")): raw.text(each.get("value"), 4096)
        for each in raw.mappings(container.get("env"))
    }
    given = next(
        (
            e
            for e in raw.mappings(container.get("env"))
            if e.get("name") == _DEFAULTS
        ),
        {},
    )
    watched = variables.get("BENCHRUN_NAMESPACES", "").split(",")
    return FoundOperator(
        namespace=raw.text(metadata_of(deployment).get("namespace")),
        name=name_of(deployment),
        account=raw.text(pod.get("serviceAccountName")) or "default",
        version=raw.text(labels_of(deployment).get("app.kubernetes.io/version")),
        client_image=variables.get("BENCHRUN_CLIENT_IMAGE") or UNKNOWN_IMAGE,
        pull_policy=variables.get("BENCHRUN_CLIENT_IMAGE_PULL_POLICY")
        or "IfNotPresent",
        namespaces=tuple(each.strip() for each in watched if each.strip()),
        lease=variables.get("BENCHRUN_LEASE") or LEASE,
        network_policies=variables.get("BENCHRUN_NETWORK_POLICIES") == "true"
        and variables.get("BENCHRUN_POD_ROAD", "Direct") == "Direct",
        available=raw.number(
            raw.mapping(deployment.get("status")).get("availableReplicas")
        ),
        defaults=_defaults_in(raw.text(given.get("value"), MAX_DEFAULTS_BYTES)),
    )


def _defaults_in(text: str) -> RunDefaults | None:
    try:
        return RunDefaults.model_validate_json(text or "{}")
    except ValidationError:
        return None


def defaults_line(operator: FoundOperator | None) -> CheckLine | None:
    """Build the NotChecked line for platform defaults that are unknown; None if they are known.

    Without them, the pods in the dry runs differ from those of a run.
    """
    if operator is not None and operator.defaults is not None:
        return None
    why = (
        "are unknown, because no operator was found"
        if operator is None
        else "are from another version than this command"
    )
    return not_checked(
        "defaults",
        subject="defaults of all runs",
        sentence=f"{why}: the checks below ignore them (the chart's runs)",
        remedy="Name the operator's namespace (--operator-namespace), where you may list its "
        "Deployment."
        if operator is None
        else "Use the command of the operator's version.",
    )


def of_namespace(
    found: Sequence[FoundOperator] | None, namespace: str
) -> FoundOperator | None:
    """Return the operator that watches the namespace; None if none is known."""
    return next((each for each in found or () if each.watches(namespace)), None)


def operator_checks(
    answers: ApiAnswers, *, home: str, namespace: str, version: str
) -> list[CheckLine]:
    """Check that exactly one operator works in the namespace, and has the command's version."""
    name = "operator"
    found = operators_in(answers, home)
    if found is None:
        answer = answers.of(deployments(home)[0])
        line = unread(name, "operator", answer, "list deployments")
        remedy = (
            f"{line.remedy} --operator-namespace names the operator's namespace."
        )
        return [
            not_checked(
                name, subject=line.subject, sentence=line.sentence, remedy=remedy
            )
        ]
    if not found:
        return [
            problem(
                name,
                subject="operator",
                sentence="no benchrun operator is installed",
                remedy="Install it (docs/install.md).",
            )
        ]
    working = [each for each in found if each.watches(namespace)]
    if not working:
        places = named([f"{each.namespace}/{each.name}" for each in found])
        return [
            problem(
                name,
                subject=f"operator {places}",
                sentence=f"does not watch namespace {namespace}",
                remedy=f"Add {namespace} to watchNamespaces, or use a namespace that is in it.",
            )
        ]
    return list(_about(working, namespace, version))


def _about(
    working: Sequence[FoundOperator], namespace: str, version: str
) -> Iterator[CheckLine]:
    if len(working) > 1:
        places = named([f"{each.namespace}/{each.name}" for each in working])
        yield warning(
            "operator",
            subject=f"operators {places}",
            sentence=f"several watch namespace {namespace}",
            remedy="Uninstall all but one, or give each its own watchNamespaces.",
        )
    first = working[0]
    subject = f"operator {first.namespace}/{first.name}"
    if not first.available:
        yield problem(
            "operator",
            subject=subject,
            sentence="none of its pods is ready",
            remedy=f"See kubectl describe pods --namespace {first.namespace} --selector "
            "app.kubernetes.io/component=operator.",
        )
        return
    yield ok(
        "operator", subject=subject, sentence=f"is ready, version {first.version}"
    )
    if first.version != version:
        yield warning(
            "version",
            subject=subject,
            sentence=f"has version {first.version or 'unknown'}, this command has {version}",
            remedy="Use the command of the operator's version.",
        )


def lease_query(operator: FoundOperator) -> ApiQuery:
    """Build the query for the operator's Lease."""
    base = "/apis/coordination.k8s.io/v1/namespaces"
    name = quote(operator.lease, safe="")
    return ApiQuery(f"{base}/{operator.namespace}/leases/{name}")


def lease_seconds(answer: ApiAnswer) -> float:
    """Return for how many seconds a Lease may stay unchanged; 0 if nobody holds it."""
    spec = raw.mapping(answer.found.get("spec"))
    if not spec.get("holderIdentity"):
        return 0.0
    return float(min(max(raw.number(spec.get("leaseDurationSeconds"), 10), 1), 60))


def lease_check(
    operator: FoundOperator, before: ApiAnswer, after: ApiAnswer
) -> CheckLine:
    """Check that the Lease was renewed between two reads.

    The second read comes as soon as the Lease was renewed, or at the end of its duration. Its times
    are compared only with each other, because clocks may differ.
    """
    name = "lease"
    subject = f"Lease {operator.namespace}/{operator.lease}"
    if "NotFound" in (before.trouble, after.trouble):
        return problem(
            name,
            subject=subject,
            sentence="does not exist, so no operator works",
            remedy="See the operator's log: kubectl logs deployment/"
            f"{operator.name} --namespace {operator.namespace}.",
        )
    if before.trouble or after.trouble:
        answer = before if before.trouble else after
        return unread(
            name, subject, answer, "get leases", namespace=operator.namespace
        )
    spec = raw.mapping(after.found.get("spec"))
    holder = raw.text(spec.get("holderIdentity"))
    was = raw.mapping(before.found.get("spec"))
    if holder and spec.get("renewTime") != was.get("renewTime"):
        return ok(name, subject=subject, sentence=f"is renewed by {holder}")
    why = f"is not renewed by {holder}" if holder else "is held by nobody"
    return problem(
        name,
        subject=subject,
        sentence=f"{why}, so no operator works",
        remedy="See the operator's log: kubectl logs deployment/"
        f"{operator.name} --namespace {operator.namespace}.",
    )


KINDS = ApiQuery(f"/apis/{names.GROUP}/{names.VERSION}")
SCHEMA = ApiQuery(f"/openapi/v3/apis/{names.GROUP}/{names.VERSION}")
SERVER = ApiQuery("/version")


def kinds_check() -> Check:
    """Check that the cluster serves benchrun's kinds, with the fields that this command knows."""
    return Check((KINDS, SCHEMA, SERVER), _kinds)


def _kinds(answers: ApiAnswers) -> list[CheckLine]:
    return [
        _kubernetes(answers.of(SERVER)),
        *_served(answers.of(KINDS)),
        *_fields(answers.of(SCHEMA)),
    ]


def _kubernetes(answer: ApiAnswer) -> CheckLine:
    text = raw.text(answer.found.get("gitVersion"))
    minor = raw.text(answer.found.get("minor")).rstrip("+")
    if answer.trouble or not minor.isdecimal():
        return unread("kubernetes", "Kubernetes", answer, "get /version")
    major = raw.number(answer.found.get("major"))
    if (major, int(minor)) < OLDEST:
        return problem(
            "kubernetes",
            subject="Kubernetes",
            sentence=f"is {text}",
            remedy=f"benchrun needs {OLDEST[0]}.{OLDEST[1]} or newer.",
        )
    return ok("kubernetes", subject="Kubernetes", sentence=f"is {text}")


def _served(answer: ApiAnswer) -> list[CheckLine]:
    served = {
        raw.text(each.get("name"))
        for each in raw.mappings(answer.found.get("resources"))
    }
    missing = [each.kind for each in (RUN, SWEEP) if each.plural not in served]
    subject = f"kinds of {names.API_VERSION}"
    if answer.trouble not in ("", "NotFound"):
        return [unread("kinds", subject, answer, "read the API's discovery")]
    if missing:
        return [
            problem(
                "kinds",
                subject=subject,
                sentence=f"the cluster does not serve {' and '.join(missing)}",
                remedy="Install the CustomResourceDefinitions with the chart (docs/install.md).",
            )
        ]
    return [ok("kinds", subject=subject, sentence="are served")]


def _fields(answer: ApiAnswer) -> Iterator[CheckLine]:
    """Compare the fields of the kinds in the cluster with those of this command."""
    if answer.trouble == "NotFound":
        return  # The kinds are missing; another line says so.
    schemas = raw.mapping(
        raw.mapping(answer.found.get("components")).get("schemas")
    )
    for each in (RUN, SWEEP):
        subject = f"fields of {each.kind}"
        theirs = next((s for s in schemas.values() if _is_of(s, each.kind)), None)
        if theirs is None:
            yield (
                unread("schema", subject, answer, "get /openapi/v3")
                if (answer.trouble)
                else not_checked(
                    "schema",
                    subject=subject,
                    sentence="the cluster publishes no schema",
                    remedy="Compare versions with kubectl explain.",
                )
            )
            continue
        ours, known = _paths(each.root_schema()), _paths(theirs)
        if lacking := sorted(ours - known):
            yield problem(
                "schema",
                subject=subject,
                sentence=f"the cluster does not know {named(lacking)}",
                remedy="Upgrade the CustomResourceDefinitions, or use an older command.",
            )
        elif more := sorted(known - ours):
            yield warning(
                "schema",
                subject=subject,
                sentence=f"this command does not know {named(more)}",
                remedy="Use the command of the operator's version.",
            )
        else:
            yield ok(
                "schema", subject=subject, sentence="are those of this command"
            )


def _is_of(schema: object, kind: str) -> bool:
    kinds = raw.mapping(schema).get("x-kubernetes-group-version-kind")
    return any(
        each.get("kind") == kind and each.get("group") == names.GROUP
        for each in raw.mappings(kinds)
    )


_OURS = ("spec", "status")
_DEEPEST = 24


def _paths(schema: object) -> frozenset[str]:
    """Return the paths of all fields below `spec` and `status`."""
    found: set[str] = set()
    properties = raw.mapping(raw.mapping(schema).get("properties"))
    waiting: list[tuple[str, Any, int]] = [
        (name, properties.get(name), 0) for name in _OURS
    ]
    while waiting:
        path, value, depth = waiting.pop()
        part = raw.mapping(value)
        for name, inner in raw.mapping(part.get("properties")).items():
            found.add(f"{path}.{name}")
            if depth < _DEEPEST:
                waiting.append((f"{path}.{name}", inner, depth + 1))
        for name in ("items", "additionalProperties"):
            if isinstance(part.get(name), dict) and depth < _DEEPEST:
                waiting.append((f"{path}[]", part[name], depth + 1))
    return frozenset(found)
