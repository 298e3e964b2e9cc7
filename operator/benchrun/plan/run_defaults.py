"""The platform's defaults: settings of all runs whose spec does not have its own.

An administrator writes them once, in the chart's `runs`. The spec's own field wins as a whole;
variables, volumes, mounts, pull secrets, labels and annotations are merged by name. The defaults of
a run are noted on its plan's ConfigMap when that is created, and read from there: another operator,
or another value in the chart, does not change a run that has begun.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from benchrun_client.engines import ENGINES
from pydantic import AfterValidator, Field, ValidationError

from benchrun import names
from benchrun.api import (
    MAX_DEFAULTS,
    BenchmarkRunSpec,
    Env,
    EnvVar,
    Model,
    NameOrNone,
    PodOverrides,
    Resources,
    SpecModel,
    Unique,
    checked_label,
    json_name,
    refused,
)
from benchrun.plan.mounted_files import model_files, served_model_files

MAX_DEFAULTS_BYTES = 48 * 1024
"""Most bytes of the defaults as JSON. They are annotations of an object of every run, and all
annotations of an object may have 256 KiB."""
_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")


def _without_passwords(env: list[EnvVar]) -> list[EnvVar]:
    """Return the variables; raise an error for a password in a URL, which specs would show."""
    for variable in env:
        if variable.value is not None and _PASSWORD.search(variable.value):
            raise refused(
                f"{variable.name} has a password in its value: put the value into a Secret and use "
                "valueFrom.secretKeyRef"
            )
    return env


def _not_refused(env: list[EnvVar]) -> list[EnvVar]:
    """Return variables of servers; raise an error for one that an engine refuses."""
    whys = {
        name: why
        for engine in ENGINES.values()
        for name, why in engine.refused_variables.items()
    }
    for variable in env:
        if variable.name in whys:
            raise refused(f"{variable.name}: {whys[variable.name]}")
    return env


DefaultEnv = Annotated[Env, AfterValidator(_without_passwords)]
Capability = Annotated[
    str, Field(max_length=40, pattern=r"^[A-Z][A-Z_]*$")
]  # As Kubernetes has it, without CAP_.


class RoleDefaults(PodOverrides):
    """Defaults of the pods of one role."""

    env: DefaultEnv = Field(default_factory=list)
    resources: Resources = Field(default_factory=Resources)
    """Only used if a run has neither limits nor requests."""
    capabilities: Annotated[list[Capability], Field(max_length=8), Unique()] = (
        Field(default_factory=list)
    )
    """Capabilities of the main container; all others are dropped. A spec can't set them."""


class ServerDefaults(RoleDefaults):
    """Defaults of the pods of an engine."""

    env: Annotated[DefaultEnv, AfterValidator(_not_refused)] = Field(
        default_factory=list
    )


class ClientDefaults(RoleDefaults):
    """Defaults of the client's pods."""

    preparation_env: DefaultEnv = Field(default_factory=list)
    """Variables that hold only until tokenizer and data are found, such as HTTPS_PROXY. Requests to
    servers are sent without them."""


def _label_names(given: list[str]) -> list[str]:
    return [checked_label(name) for name in given]


class RunDefaults(SpecModel):
    """The platform's defaults."""

    server: ServerDefaults = Field(default_factory=ServerDefaults)
    offline: ServerDefaults = Field(default_factory=ServerDefaults)
    client: ClientDefaults = Field(default_factory=ClientDefaults)
    proxy: RoleDefaults = Field(default_factory=RoleDefaults)
    copy_labels: Annotated[
        list[str], Field(max_length=8), Unique(), AfterValidator(_label_names)
    ] = Field(default_factory=list)
    """Labels that objects and pods copy from their run. Selectors do not have them."""
    model_cache_claim: NameOrNone = ""
    """Claim with models, for runs that start a server with a model of the hub and name no claim."""
    compile_cache_claim: NameOrNone = ""
    """Claim with compiled code, for runs that start a server and name no claim."""
    user_from_namespace: bool = False
    """Whether pods leave out user and groups, because the namespace sets them, as on OpenShift."""

    def of_role(self, spec: BenchmarkRunSpec, role: str) -> RoleDefaults:
        """Return the defaults of the pods that this run has in a role."""
        if role == names.ROLE_CLIENT:
            return self.client
        if role == names.ROLE_PROXY:
            return self.proxy
        return self.server if spec.offline is None else self.offline

    def to_json(self) -> str:
        """Return the defaults as compact JSON, without fields that are not set."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True)


NO_DEFAULTS = RunDefaults()
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """The defaults that hold for one run, and the labels that were copied from the run."""

    defaults: RunDefaults = NO_DEFAULTS
    labels: Labels = ()


NOTHING_APPLIED = Applied()


def applied_to(labels: Labels, defaults: RunDefaults) -> Applied:
    """Return the defaults for a run with these labels whose plan is made now."""
    copied = tuple(
        (name, value) for name, value in labels if name in defaults.copy_labels
    )
    return Applied(defaults, copied)


_NOTED = (
    names.ANNOTATION_DEFAULTS,
    names.ANNOTATION_COPIED_LABELS,
    names.ANNOTATION_DEFAULTS_MAC,
)
_PURPOSE = b"benchrun.defaults/1\x1f"


def noted(applied: Applied, *, key: bytes, run_uid: str) -> dict[str, str]:
    """Return the annotations that `read_applied` reads.

    They have a MAC by the operator's key. Without it, whoever may write ConfigMaps in the namespace
    could change them, and have the operator create pods that he may not create himself.
    """
    defaults = applied.defaults.to_json()
    labels = json.dumps(dict(applied.labels), separators=(",", ":"))
    mac = _mac(key, run_uid, defaults, labels)
    return dict(zip(_NOTED, (defaults, labels, mac), strict=True))


def read_applied(
    defaults: str, labels: str, mac: str, *, key: bytes, run_uid: str
) -> Applied | None:
    """Return the defaults of a run from the values of the three annotations.

    Return None if the MAC is not by this operator's key, or this release can't parse the text.
    """
    if not hmac.compare_digest(
        mac.encode(), _mac(key, run_uid, defaults, labels).encode()
    ):
        return None
    try:
        return Applied(_parsed(defaults), tuple(json.loads(labels).items()))
    except ValidationError:
        return None


def _mac(key: bytes, run_uid: str, *texts: str) -> str:
    message = "\x1f".join((run_uid, *texts)).encode(errors="replace")
    return hmac.new(key, _PURPOSE + message, hashlib.sha256).hexdigest()


@lru_cache(maxsize=16)
def _parsed(text: str) -> RunDefaults:
    return RunDefaults.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Settings of the pods of a role, from a spec alone or with the defaults."""

    pod: PodOverrides
    env: Sequence[EnvVar]
    resources: Resources


def own_settings(spec: BenchmarkRunSpec, role: str) -> PodSettings:
    """Return the settings of a role's pods in the spec alone.

    A proxy is placed as the client is, without the client's files.
    """
    client = spec.client
    if role == names.ROLE_CLIENT:
        return PodSettings(client.pod, client.env, client.resources)
    started = spec.started
    assert started is not None, "an endpoint has no roles"
    split = spec.server.disaggregated if spec.server is not None else None
    if split is None:
        return PodSettings(started.pod, started.env, started.resources)
    if role != names.ROLE_PROXY:
        return PodSettings(started.pod, started.env, split.of_role(role).resources)
    secrets = dict.fromkeys(
        (
            *(client.pod.image_pull_secrets or ()),
            *(started.pod.image_pull_secrets or ()),
        )
    )
    pod = client.pod.model_copy(
        update={
            "volumes": None,
            "volume_mounts": None,
            "image_pull_secrets": [*secrets] or None,
        }
    )
    return PodSettings(pod, (), split.proxy.resources)


def settings_of(
    spec: BenchmarkRunSpec, role: str, applied: Applied = NOTHING_APPLIED
) -> PodSettings:
    """Return the settings of a role's pods: those of the spec, and the defaults."""
    own = own_settings(spec, role)
    given = applied.defaults.of_role(spec, role)
    model = model_with_claim(spec, applied)
    # So are the variables by which a pod finds the model: its token, its place on a claim.
    of_model = (*model_files(model).env, *served_model_files(model).env)
    taken = {each.name for each in own.env} | {each["name"] for each in of_model}
    env = [*(each for each in given.env if each.name not in taken), *own.env]
    has_resources = own.resources.limits or own.resources.requests
    return PodSettings(
        _merged(own.pod, given, copied=dict(applied.labels)),
        env,
        own.resources if has_resources else given.resources,
    )


_ENTRY_NAMES = {"volumes": "name", "volume_mounts": "mountPath"}
"""Lists that are merged by name -> the field of an entry that has its name."""
_MAPS = ("labels", "annotations")


def _merged(
    own: PodOverrides, given: PodOverrides, *, copied: Mapping[str, str]
) -> PodOverrides:
    update: dict[str, Any] = {}
    for field in PodOverrides.model_fields:
        mine, theirs = getattr(own, field), getattr(given, field)
        if theirs is None:
            continue
        if field == "labels":
            # A label that comes from the run is the run's own.
            theirs = {k: v for k, v in theirs.items() if k not in copied}
        if mine is None:
            update[field] = theirs
        elif field in _MAPS:
            update[field] = {**theirs, **mine}
        elif field == "image_pull_secrets":
            update[field] = [*dict.fromkeys((*mine, *theirs))]
        elif (name := _ENTRY_NAMES.get(field)) is not None:
            taken = [entry.get(name) for entry in mine]
            added = (entry for entry in theirs if entry.get(name) not in taken)
            update[field] = [*mine, *added]
    return own.model_copy(update=update)


def with_defaults(
    spec: BenchmarkRunSpec, applied: Applied = NOTHING_APPLIED
) -> BenchmarkRunSpec:
    """Return the spec as if the user had written the defaults into it."""
    if applied.defaults == NO_DEFAULTS:
        return spec
    client = settings_of(spec, names.ROLE_CLIENT, applied)
    update: dict[str, Any] = {
        "model": model_with_claim(spec, applied),
        "client": spec.client.model_copy(update=_fields(client)),
    }
    if (started := spec.started) is not None:
        update[spec.started_name] = started.model_copy(
            update=_of_started(spec, applied)
            | {"compile_cache_claim": _compile_claim(spec, applied)}
        )
    return spec.model_copy(update=update)


def _of_started(spec: BenchmarkRunSpec, applied: Applied) -> dict[str, Any]:
    """Return the changed fields of the server or engine."""
    split = spec.server.disaggregated if spec.server is not None else None
    if split is None:
        return _fields(settings_of(spec, names.ROLE_SERVER, applied))
    both = {
        role: settings_of(spec, role, applied)
        for role in (names.ROLE_PREFILL, names.ROLE_DECODE)
    }
    roles = {
        role: split.of_role(role).model_copy(update={"resources": each.resources})
        for role, each in both.items()
    }
    fields = _fields(both[names.ROLE_DECODE])
    return fields | {
        "resources": Resources(),
        "disaggregated": split.model_copy(update=roles),
    }


def _fields(settings: PodSettings) -> dict[str, Any]:
    return {
        "pod": settings.pod,
        "env": [*settings.env],
        "resources": settings.resources,
    }


_OWN_CACHE = frozenset({"HF_HOME", "HF_HUB_CACHE"})
"""Variables with which a server sets where the hub's files are."""


def model_with_claim(spec: BenchmarkRunSpec, applied: Applied) -> Model:
    """Return the model, with the platform's claim if the run uses it.

    The run does not use it if the spec names another claim or an empty name, if the server has a
    cache of its own, or if the claim would not hold the tokenizer.
    """
    model = spec.model
    claim = applied.defaults.model_cache_claim
    hub = model.source.hub
    started = spec.started
    if not claim or hub is None or hub.cache_claim is not None or started is None:
        return model
    has_own = any(each.name in _OWN_CACHE for each in started.env)
    is_foreign = not (model.tokenizer or "/").startswith("/")
    if has_own or is_foreign:
        return model
    source = model.source.model_copy(
        update={"hub": hub.model_copy(update={"cache_claim": claim})}
    )
    return model.model_copy(update={"source": source})


def _compile_claim(spec: BenchmarkRunSpec, applied: Applied) -> str | None:
    """Return the claim for compiled code: the spec's, else the platform's.

    The platform's is not used if a variable of the server says where one of its caches is.
    """
    started = spec.started
    if started is None or started.compile_cache_claim is not None:
        return None if started is None else started.compile_cache_claim
    caches = spec.engine.compile_caches
    has_own = any(each.name in caches for each in started.env)
    is_given = caches and not has_own and applied.defaults.compile_cache_claim
    return applied.defaults.compile_cache_claim if is_given else None


def _claims(spec: BenchmarkRunSpec, role: str) -> dict[str, str]:
    """Return the claims that a role's pods share with other runs, by the chart's name of each."""
    hub = spec.model.source.hub
    found = {} if hub is None else {MODEL_CLAIM: hub.cache_claim}
    if role != names.ROLE_CLIENT and spec.started is not None:
        found[COMPILE_CLAIM] = spec.started.compile_cache_claim
    if role == names.ROLE_PROXY:
        return {}
    return {name: claim for name, claim in found.items() if claim}


def claims_by_default(
    spec: BenchmarkRunSpec, role: str, applied: Applied
) -> dict[str, str]:
    """Return the claims that a role's pods have from the platform, by the chart's name of each."""
    own = _claims(spec, role)
    given = _claims(with_defaults(spec, applied), role)
    return {name: claim for name, claim in given.items() if name not in own}


def preparation_env(spec: BenchmarkRunSpec, applied: Applied) -> list[EnvVar]:
    """Return the client's variables that hold only while it prepares.

    Variables that the spec or another default sets for the whole run are left out.
    """
    whole_run = {
        each.name for each in settings_of(spec, names.ROLE_CLIENT, applied).env
    }
    given = applied.defaults.client.preparation_env
    return [each for each in given if each.name not in whole_run]


MAX_VALUE_CHARS = 160
MAX_STATUS_BYTES = 1500
"""Most bytes of the defaults of one role in a status."""
OTHERS = "others"
MODEL_CLAIM = json_name("model_cache_claim")
COMPILE_CLAIM = json_name("compile_cache_claim")
"""Values of the chart, under `runs`."""


def applied_fields(
    spec: BenchmarkRunSpec, role: str, applied: Applied
) -> dict[str, str]:
    """Return what the defaults set in a role's pods in addition to the spec: text by field."""
    if applied.defaults == NO_DEFAULTS:
        return {}
    own = own_fields(spec, role)
    given = applied.defaults.of_role(spec, role)
    found = {
        field: text
        for field, text in _as_text(settings_of(spec, role, applied)).items()
        if own.get(field) != text
    }
    if given.capabilities:
        found["capabilities"] = _text(given.capabilities)
    found |= claims_by_default(spec, role, applied)
    if applied.defaults.user_from_namespace:
        found["userFromNamespace"] = _text(True)
    if role == names.ROLE_CLIENT and (env := preparation_env(spec, applied)):
        found["preparationEnv"] = _text([each.name for each in env])
    return _bounded(found)


def own_fields(spec: BenchmarkRunSpec, role: str) -> dict[str, str]:
    """Return what the spec itself sets in a role's pods: text by field."""
    return _claims(spec, role) | _as_text(own_settings(spec, role))


def _as_text(settings: PodSettings) -> dict[str, str]:
    body = settings.pod.model_dump(by_alias=True, exclude_none=True)
    found: dict[str, Any] = {}
    for field in PodOverrides.model_fields:
        value = body.get(alias := json_name(field))
        if value is None:
            continue
        if field in _MAPS:
            found |= {f"{alias}.{name}": each for name, each in value.items()}
        elif (name := _ENTRY_NAMES.get(field)) is not None:
            found |= {f"{alias}.{each.get(name)}": each for each in value}
        else:
            found[alias] = value
    for variable in settings.env:
        given = (
            variable.value if variable.value is not None else variable.value_from
        )
        found[f"env.{variable.name}"] = given
    amounts = settings.resources.model_dump(by_alias=True, exclude_defaults=True)
    if amounts:
        found["resources"] = amounts
    return {field: _text(value) for field, value in found.items()}


def _text(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True).replace('"', "")
    )
    if len(text) <= MAX_VALUE_CHARS:
        return text
    return f"{text[:MAX_VALUE_CHARS]}… SHA-256 {_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _bounded(found: Mapping[str, str]) -> dict[str, str]:
    """Return as many entries as fit into a status; the last one counts all others."""
    kept: dict[str, str] = {}
    room = MAX_STATUS_BYTES
    left = dict(found)
    for field, text in found.items():
        room -= len(field.encode()) + len(text.encode())
        if room < 0 or len(kept) == MAX_DEFAULTS - 1:
            break
        kept[field] = left.pop(field)
    if left:
        kept[OTHERS] = f"{len(left)}, SHA-256 {_digest(_joined(left.items()))}"
    return kept


def _joined(pairs: Iterable[tuple[str, str]]) -> str:
    return json.dumps(sorted(pairs))
