"""Checks of the objects that pods refer to: claims, Secrets, ConfigMaps, accounts, classes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from benchrun.doctor.asking import (
    ApiAnswer,
    ApiAnswers,
    ApiQuery,
    Check,
    CheckLine,
    metadata_of,
    name_of,
    named,
    ok,
    problem,
    unread,
    warning,
)
from benchrun.doctor.target import PlannedPod, RunTarget
from benchrun.observe import untrusted_json as raw


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of object that pods refer to."""

    kind: str
    path: str  # API path of the list; has {namespace} if the kind is namespaced.
    field: str  # Field of the spec with the name; {pod} is the path of the pod's settings.

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]

    def query(self, namespace: str, name: str) -> ApiQuery:
        """Build the query for one object of the kind."""
        path = self.path.format(namespace=namespace)
        return ApiQuery(f"{path}/{quote(name, safe='')}")


_CORE = "/api/v1/namespaces/{namespace}"
CLAIM = _Kind(
    "PersistentVolumeClaim", f"{_CORE}/persistentvolumeclaims", "the claim's name"
)
SECRET = _Kind("Secret", f"{_CORE}/secrets", "the Secret's name")
CONFIG_MAP = _Kind("ConfigMap", f"{_CORE}/configmaps", "the ConfigMap's name")
SERVICE = _Kind("Service", f"{_CORE}/services", "spec.endpoint.serviceRef")
ACCOUNT = _Kind(
    "ServiceAccount", f"{_CORE}/serviceaccounts", "{pod}.serviceAccountName"
)
PRIORITY = _Kind(
    "PriorityClass",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "{pod}.priorityClassName",
)
RUNTIME = _Kind(
    "RuntimeClass", "/apis/node.k8s.io/v1/runtimeclasses", "{pod}.runtimeClassName"
)
STORAGE = ApiQuery("/apis/storage.k8s.io/v1/storageclasses")


_KINDS = {
    each.kind: each
    for each in (CLAIM, SECRET, CONFIG_MAP, SERVICE, ACCOUNT, PRIORITY, RUNTIME)
}


def brought(
    objects: Iterable[raw.Object], namespace: str
) -> dict[ApiQuery, ApiAnswer]:
    """Return answers for the objects in the user's file, which are created with the run."""
    found: dict[ApiQuery, ApiAnswer] = {}
    for body in objects:
        kind = _KINDS.get(raw.text(body.get("kind")))
        if kind is not None and (name := name_of(body)):
            found[kind.query(namespace, name)] = ApiAnswer(body)
    return found


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a pod refers to, and a key in it; the key is empty if any will do."""

    kind: _Kind
    name: str
    key: str = ""
    is_written: bool = False  # Whether a claim is mounted for writing.
    is_optional: bool = False  # Whether the pod starts without it.


def references_of(pod: PlannedPod) -> Iterator[Reference]:
    """Yield every object that the pod refers to."""
    spec = pod.spec
    for field, kind in _FIELDS.items():
        if name := raw.text(spec.get(field)):
            yield Reference(kind, name)
    for each in raw.mappings(spec.get("imagePullSecrets")):
        yield Reference(SECRET, raw.text(each.get("name")))
    for volume in raw.mappings(spec.get("volumes")):
        yield from _of_volume(volume)
    for container in pod.containers:
        for variable in raw.mappings(container.get("env")):
            yield from _of_variable(raw.mapping(variable.get("valueFrom")))


_FIELDS = {
    "serviceAccountName": ACCOUNT,
    "priorityClassName": PRIORITY,
    "runtimeClassName": RUNTIME,
}


def _of_volume(volume: raw.Object) -> Iterator[Reference]:
    claim = raw.mapping(volume.get("persistentVolumeClaim"))
    if name := raw.text(claim.get("claimName")):
        yield Reference(CLAIM, name, is_written=claim.get("readOnly") is not True)
    for field, kind, named_by in (
        ("secret", SECRET, "secretName"),
        ("configMap", CONFIG_MAP, "name"),
    ):
        source = raw.mapping(volume.get(field))
        if name := raw.text(source.get(named_by)):
            keys = [
                raw.text(i.get("key")) for i in raw.mappings(source.get("items"))
            ]
            is_optional = source.get("optional") is True
            yield from (
                Reference(kind, name, key, is_optional=is_optional)
                for key in keys or [""]
            )


def _of_variable(source: raw.Object) -> Iterator[Reference]:
    for field, kind in (("secretKeyRef", SECRET), ("configMapKeyRef", CONFIG_MAP)):
        found = raw.mapping(source.get(field))
        if name := raw.text(found.get("name")):
            is_optional = found.get("optional") is True
            yield Reference(
                kind, name, "" if is_optional else raw.text(found.get("key"))
            )


def _of_spec(target: RunTarget) -> Iterator[Reference]:
    """Yield the objects that the run needs although its pods would start without them.

    These are the endpoint's Service, datasets in ConfigMaps, and the chat template.
    """
    endpoint = target.spec.endpoint
    if endpoint is not None and endpoint.service_ref is not None:
        yield Reference(SERVICE, endpoint.service_ref.name)
    for workload in target.spec.workloads:
        file = workload.dataset.file
        if file is not None and file.config_map is not None:
            yield Reference(CONFIG_MAP, file.config_map.name, file.config_map.key)
    template = target.spec.chat_template
    if template is not None and (given := template.config_map) is not None:
        yield Reference(CONFIG_MAP, given.name, given.key)


def reference_check(target: RunTarget) -> Check:
    """Check that every object that the pods refer to exists and suits them."""
    own = {each["metadata"]["name"] for each in target.objects}
    users: dict[Reference, list[PlannedPod]] = {}
    for pod in target.pods:
        for each in references_of(pod):
            if each.name not in own:
                users.setdefault(each, []).append(pod)
    for each in _of_spec(target):
        users.setdefault(each, []).append(target.pods[0])
    queries = [each.kind.query(target.namespace, each.name) for each in users]
    has_claims = any(each.kind is CLAIM for each in users)
    asked = dict.fromkeys([*queries, *([STORAGE] if has_claims else [])])
    return Check(
        tuple(asked), lambda answers: list(_references(answers, users, target))
    )


def _references(
    answers: ApiAnswers,
    users: Mapping[Reference, list[PlannedPod]],
    target: RunTarget,
) -> Iterator[CheckLine]:
    grouped: dict[tuple[str, str], list[Reference]] = {}
    for each in users:
        grouped.setdefault((each.kind.kind, each.name), []).append(each)
    for same in grouped.values():
        first = same[0]
        answer = answers.of(first.kind.query(target.namespace, first.name))
        pods = [pod for each in same for pod in users[each]]
        yield from _reference(answer, same, pods, target.namespace, answers)


def _reference(
    answer: ApiAnswer,
    same: list[Reference],
    pods: list[PlannedPod],
    namespace: str,
    answers: ApiAnswers,
) -> Iterator[CheckLine]:
    kind = same[0].kind
    name = kind.kind.lower()
    subject = f"{kind.kind} {same[0].name}"
    roles = " and ".join(dict.fromkeys(pod.role for pod in pods))
    if answer.trouble == "NotFound":
        field = kind.field.format(pod=pods[0].place.pod)
        if all(each.is_optional for each in same):
            yield warning(
                name,
                subject=subject,
                sentence=f"does not exist; it is optional, so {roles} start without it",
                remedy=f"Create it if it is needed, or change {field}.",
            )
            return
        yield problem(
            name,
            subject=subject,
            sentence=f"does not exist; it is needed by {roles}",
            remedy=f"Create it, or change {field}.",
        )
        return
    if answer.trouble:
        where = namespace if "{namespace}" in kind.path else ""
        yield unread(name, subject, answer, f"get {kind.plural}", namespace=where)
        return
    keys = [each.key for each in same if each.key and not each.is_optional]
    has = {
        *raw.mapping(answer.found.get("data")),
        *raw.mapping(answer.found.get("binaryData")),
        *raw.mapping(answer.found.get("stringData")),
    }
    if missing := sorted({*keys} - has):
        yield problem(
            name,
            subject=subject,
            sentence=f"has no key {named(missing)}, needed by {roles}",
            remedy=f"Add the key; existing keys: {named(sorted(has)) or 'none'}.",
        )
        return
    extra = _EXTRA.get(kind.kind)
    found = list(extra(answer.found, same, pods, answers)) if extra else []
    yield from found or [ok(name, subject=subject, sentence="exists")]


def _claim(
    claim: raw.Object,
    same: list[Reference],
    pods: list[PlannedPod],
    answers: ApiAnswers,
) -> Iterator[CheckLine]:
    subject = f"PersistentVolumeClaim {name_of(claim)}"
    make_problem = _line("persistentvolumeclaim", subject)
    status = raw.mapping(claim.get("status"))
    if metadata_of(claim).get("deletionTimestamp"):
        yield make_problem(problem, "is being deleted", "Use another claim.")
        return
    if status.get("phase") != "Bound":
        yield _unbound(claim, make_problem, answers)
    given = raw.mapping(claim.get("spec")).get("accessModes")
    modes = [raw.text(mode) for mode in given] if isinstance(given, list) else []
    # A pod may refer to the claim twice. Leader and workers of a group share a role.
    count = sum(pod.count for pod in {id(pod): pod for pod in pods}.values())
    if modes == ["ReadWriteOncePod"] and count > 1:
        yield make_problem(
            problem,
            f"can be used by one pod only (ReadWriteOncePod), and {count} pods need it",
            "Use a claim with ReadOnlyMany or ReadWriteMany.",
        )
    elif modes == ["ReadWriteOnce"] and count > 1:
        yield make_problem(
            warning,
            f"can be used on one node at a time (ReadWriteOnce), and {count} pods need it",
            "Use a claim with ReadOnlyMany or ReadWriteMany, or place the pods on one node.",
        )
    elif modes == ["ReadOnlyMany"] and any(each.is_written for each in same):
        yield make_problem(
            problem,
            "is read-only (ReadOnlyMany), and a pod mounts it for writing",
            "Use a claim with ReadWriteOnce or ReadWriteMany.",
        )


def _line(name: str, subject: str) -> Callable[..., CheckLine]:
    def line(
        make: Callable[..., CheckLine], sentence: str, remedy: str
    ) -> CheckLine:
        return make(name, subject=subject, sentence=sentence, remedy=remedy)

    return line


def _unbound(
    claim: raw.Object, line: Callable[..., CheckLine], answers: ApiAnswers
) -> CheckLine:
    phase = raw.text(raw.mapping(claim.get("status")).get("phase")) or "Pending"
    wanted = raw.text(raw.mapping(claim.get("spec")).get("storageClassName"))
    classes = answers.of(STORAGE)
    found = next((each for each in classes.items if name_of(each) == wanted), None)
    if phase == "Lost":
        return line(
            problem, "has lost its volume", "Restore it, or use another claim."
        )
    if wanted and classes.is_whole and found is None:
        return line(
            problem,
            f"asks for StorageClass {wanted}, which does not exist",
            "Create the class, or use a claim of another class.",
        )
    waits = found is not None and (
        found.get("volumeBindingMode") == "WaitForFirstConsumer"
    )
    when = "the first pod uses it" if waits else "a volume is provided"
    return line(
        warning,
        f"is {phase} until {when}; a new volume is empty, without model or data",
        f"See kubectl describe pvc {name_of(claim)}.",
    )


_EXTRA: Mapping[
    str,
    Callable[
        [raw.Object, list[Reference], list[PlannedPod], ApiAnswers],
        Iterator[CheckLine],
    ],
] = {CLAIM.kind: _claim}
