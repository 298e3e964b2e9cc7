"""`spec.model`, `spec.server`, `spec.offline` and `spec.endpoint`.

Where the model's files come from, the server to start or that already runs, what a container of a
run gets and how its pod is placed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from benchrun_client.contract import MAX_TEMPLATE_CHARACTERS
from benchrun_client.engines import ENGINES, Engine, EngineName
from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from benchrun.api import base
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, is_ours

Args = Annotated[
    list[Annotated[str, Field(max_length=4096)]],
    Field(max_length=128, json_schema_extra=base.ATOMIC),
]
"""Command-line arguments, one an item."""
StringMap = Annotated[
    dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=64)
]
ObjectList = Annotated[
    list[base.KubernetesObject], Field(max_length=32, json_schema_extra=base.ATOMIC)
]
Quantity = (
    Annotated[int, Field(ge=0)]
    | Annotated[
        str,
        Field(
            max_length=24,
            pattern=r"^[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i|e[0-9]{1,2})?$",
        ),
    ]
)
"""A Kubernetes quantity: 1, "500m", "6Gi"."""
Quantities = Annotated[dict[str, Quantity], Field(max_length=32)]


_SOURCES = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
EnvSource = Annotated[
    dict[
        str,
        Annotated[
            dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=4)
        ],
    ],
    Field(min_length=1, max_length=1),
    base.Rule(
        cel=f"self.all(source, source in {list(_SOURCES)})",
        message=f"must be one of {', '.join(_SOURCES)}",
    ),
]
"""Kubernetes' EnvVarSource, without `optional`: a benchmark with a setting missing is another
benchmark."""


class EnvVar(base.SpecModel):
    """An environment variable of a container; a Secret is named, never written out."""

    rules = (base.exactly_one("value", "value_from"),)
    name: Annotated[
        str,
        Field(
            min_length=1, max_length=256, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
        ),
    ]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] | None = Field(
        None, description="Its value. Never a secret."
    )
    value_from: EnvSource | None = None
    """Where its value comes from, for example secretKeyRef: {name: s, key: k}; also
    configMapKeyRef, fieldRef and resourceFieldRef."""


Env = Annotated[list[EnvVar], Field(max_length=64), base.Unique("name")]


class Resources(base.SpecModel):
    """Requests and limits, as in Kubernetes."""

    limits: Quantities = Field(
        default_factory=dict,
        description="Limits by resource, for example nvidia.com/gpu: 1.",
    )
    requests: Quantities = Field(
        default_factory=dict, description="Requests by resource name."
    )


def _without_token(volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the volumes; raise ValueError for one with a ServiceAccount token.

    A rule in the API server can't see into volumes.
    """
    for position, volume in enumerate(volumes):
        projected = volume.get("projected")
        sources = projected.get("sources") if isinstance(projected, dict) else None
        for each in sources if isinstance(sources, list) else []:
            if isinstance(each, dict) and "serviceAccountToken" in each:
                raise ValueError(
                    f"[{position}].projected: pods of a run get no ServiceAccount token; leave "
                    "the source serviceAccountToken out"
                )
    return volumes


_LABEL_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


def checked_label(name: str) -> str:
    """Return the name of a label or annotation; raise an error where it can't be a user's."""
    if not _LABEL_NAME.fullmatch(name):
        raise base.refused(
            f"{name[:80]!r} is not a name of a label or annotation: write NAME or DOMAIN/NAME"
        )
    if is_ours(name):
        raise base.refused(f"{name} is benchrun's own: remove it")
    return name


def _checked_labels(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels or annotations with their names checked.

    A rule in the API server can't bound the length of names, so it would cost too much there.
    """
    for name in given:
        checked_label(name)
    return given


LabelValue = Annotated[
    str,
    Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"),
]
Labels = Annotated[
    dict[str, LabelValue], Field(max_length=32), AfterValidator(_checked_labels)
]
Annotations = Annotated[
    dict[str, Annotated[str, Field(max_length=4096)]],
    Field(max_length=32),
    AfterValidator(_checked_labels),
]


class PodOverrides(base.SpecModel):
    """How the pod is placed and what it mounts.

    Users who may set this can do all that users who may create pods can do.
    """

    node_selector: StringMap | None = Field(
        None, description="Labels a node must have."
    )
    tolerations: ObjectList | None = Field(
        None, description="Kubernetes tolerations."
    )
    affinity: base.KubernetesObject | None = Field(
        None, description="Kubernetes affinity."
    )
    volumes: Annotated[ObjectList, AfterValidator(_without_token)] | None = Field(
        None, description="More volumes."
    )
    volume_mounts: ObjectList | None = Field(
        None, description="Mounts of these volumes in the main container."
    )
    runtime_class_name: base.ObjectName | None = Field(
        None, description="RuntimeClass of the pod."
    )
    priority_class_name: base.ObjectName | None = Field(
        None, description="PriorityClass of the pod."
    )
    scheduler_name: base.ObjectName | None = Field(
        None, description="Scheduler that places the pod."
    )
    service_account_name: base.ObjectName | None = Field(
        None, description="ServiceAccount of the pod; no token is mounted."
    )
    security_context: base.KubernetesObject | None = None
    """Kubernetes PodSecurityContext in place of the default, which is non-root with seccomp
    RuntimeDefault."""
    image_pull_secrets: (
        Annotated[list[base.ObjectName], Field(max_length=8), base.Unique()] | None
    ) = None
    """Names of Secrets for pulling the image."""
    topology_spread_constraints: ObjectList | None = Field(
        None, description="Kubernetes topologySpreadConstraints."
    )
    labels: Labels | None = Field(
        None, description="More labels of the pod; none of benchrun.dev."
    )
    annotations: Annotations | None = Field(
        None, description="More annotations of the pod; none of benchrun.dev."
    )


class SecretKeyRef(base.SpecModel):
    """A key of a Secret in the run's namespace, which pods read and the operator never does."""

    name: base.ObjectName = Field(description="Name of the Secret.")
    key: base.Key = Field("token", description="Key within the Secret.")


class HubSource(base.SpecModel):
    """Server and client each download the files, unless there is a cacheClaim."""

    token_secret_ref: SecretKeyRef | None = Field(
        None, description="Hub token for gated models; becomes HF_TOKEN."
    )
    endpoint: (
        Annotated[
            str, Field(max_length=512, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")
        ]
        | None
    ) = None
    """URL of another hub or a mirror; becomes HF_ENDPOINT."""
    cache_claim: base.NameOrNone | None = None
    """PersistentVolumeClaim that keeps the model at one commit. The client fills it before a server
    exists; servers mount it, without hub and token. Left out: the platform's (the chart's
    runs.modelCacheClaim), if it has one; empty: none."""


class PvcSource(base.SpecModel):
    """The claim is mounted read-only into server and client."""

    claim_name: base.ObjectName = Field(
        description="Name of the PersistentVolumeClaim."
    )
    path: Annotated[str, Field(max_length=512, pattern=r"^[^/].*$")] | None = None
    """Directory of the model within the claim; its root if left out."""


class ImageVolumeSource(base.SpecModel):
    """The artifact is mounted read-only into server and client; needs Kubernetes 1.35."""

    reference: base.Text = Field(description="Image reference of the artifact.")
    path: Annotated[str, Field(max_length=512, pattern=r"^[^/].*$")] | None = None
    """Directory of the model within the artifact; its root if left out."""


class PathSource(base.SpecModel):
    """The directory is at the same path in server and client."""

    path: Annotated[str, Field(max_length=512, pattern=r"^/.*$")] = Field(
        description="Path of the model directory."
    )


class ModelSource(base.SpecModel):
    """Exactly one of `hub`, `pvc`, `imageVolume` and `path`."""

    rules = (base.exactly_one("hub", "pvc", "image_volume", "path"),)
    hub: HubSource | None = Field(None, description="From the Hugging Face hub.")
    pvc: PvcSource | None = Field(None, description="From a PersistentVolumeClaim.")
    image_volume: ImageVolumeSource | None = Field(
        None, description="From an OCI artifact."
    )
    path: PathSource | None = Field(
        None, description="From a directory that the images bring along."
    )


class Model(base.SpecModel):
    """The model under test."""

    rules = (
        base.Rule(
            cel="!has(self.revision) || has(self.source.hub)",
            message="revision is that of a model on the hub: remove revision, or set source.hub",
        ),
        base.Rule(
            cel=(
                "!has(self.source.hub) || !has(self.source.hub.cacheClaim) || "
                "self.source.hub.cacheClaim == '' || "
                "!has(self.tokenizer) || self.tokenizer.matches('^/')"
            ),
            message=(
                "source.hub.cacheClaim keeps only the model's own repository: remove tokenizer, or "
                "give it the path of a folder"
            ),
            path=".tokenizer",
        ),
    )
    name: Annotated[str, Field(min_length=1, max_length=256)]
    """Model name, for example Qwen/Qwen3-4B. With source hub it is the hub's id."""
    revision: base.Text | None = Field(
        None, description="Revision on the hub: a branch, tag or commit."
    )
    served_name: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Name the server answers to; `name` if left out."""
    tokenizer: base.Text | None = Field(
        None,
        description="Hub id or path of the tokenizer; the model's own if left out.",
    )
    source: ModelSource = Field(
        default_factory=lambda: ModelSource(hub=HubSource())
    )
    """Where the files come from."""


class TemplateKey(base.SpecModel):
    """A ConfigMap of the run's namespace."""

    name: Annotated[str, Field(max_length=253)] = Field(
        description="Name of the ConfigMap."
    )
    key: Annotated[str, Field(max_length=253)] = Field(
        description="Key that holds the template."
    )


class ChatTemplate(base.SpecModel):
    """Either `inline` or `configMap`."""

    rules = (base.exactly_one("inline", "config_map"),)
    inline: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_TEMPLATE_CHARACTERS,
        description="The template.",
    )
    config_map: TemplateKey | None = Field(
        None, description="Where the template is stored."
    )


def _refusing(
    problem_of: Callable[[Engine, list[base.T]], tuple[int, str] | None],
) -> AfterValidator:
    """Build a validator of a list in a server's spec, for a check that CEL can't make.

    `problem_of` returns the index of an entry and what is wrong with it; None if the list is valid.
    """

    def check(given: list[base.T], server: ValidationInfo) -> list[base.T]:
        if (engine := _engine_of(server)) is not None:
            _refuse(problem_of(engine, given), path="")
        return given

    return AfterValidator(check)


def _engine_of(server: ValidationInfo) -> Engine | None:
    """Return the engine of the server that is being validated; None if its name is not valid."""
    name: EngineName | None = server.data.get("engine")
    return None if name is None else ENGINES[name]


def _refuse(problem: tuple[int, str] | None, *, path: str) -> None:
    if problem is not None:
        place, text = problem
        raise PydanticCustomError(
            "rule", "{text}", {"text": text, "path": f"{path}[{place}]"}
        )


def _owned_flag(engine: Engine, args: list[str]) -> tuple[int, str] | None:
    return engine.owned_flag(args)


def _command_problem(engine: Engine, command: list[str]) -> tuple[int, str] | None:
    return engine.command_problem(command)


def _refused_variable(engine: Engine, env: list[EnvVar]) -> tuple[int, str] | None:
    refused = engine.refused_variables
    return next(
        (
            (n, f"{each.name}: {refused[each.name]}")
            for n, each in enumerate(env)
            if each.name in refused
        ),
        None,
    )


def is_script(command: Sequence[str]) -> bool:
    """Return whether a word of the command is a line of shell script.

    It is not known what such a command starts.
    """
    return any(
        any(c.isspace() for c in word.strip())
        for word in command
        if word[:1] not in ("-", "{")
    )


ServerFlags = Annotated[Args, _refusing(_owned_flag)]


class RoleServers(base.SpecModel):
    """Servers of one role. Settings that both roles share are in `server`."""

    replicas: Annotated[int, Field(ge=1, le=16)] = Field(
        1, description="Servers of this role, each in its own pod."
    )
    args: Args = Field(
        default_factory=list,
        description="Flags for this role, appended to `server.args`.",
    )
    resources: Resources = Field(
        default_factory=Resources,
        description="Resources of each server of this role.",
    )


class Proxy(base.SpecModel):
    """Proxy: sends each request to a prefill server, then to a decode server."""

    image: base.Text | None = None
    """Image of another proxy, which serves on port 8000. The variables PREFILL_URL and DECODE_URL
    tell it where the servers are. Left out: benchrun's own."""
    args: Args = Field(default_factory=list)
    """Arguments of the proxy, with $(PREFILL_URL) and $(DECODE_URL)."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of the proxy; 500m of CPU and 256Mi by default."""


class KVTransfer(base.SpecModel):
    """KV cache transfer: vLLM's --kv-transfer-config for both roles.

    The same flag in the args of each role replaces it as a whole.
    """

    connector: Annotated[
        str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    ]
    """vLLM's name of the connector, for example NixlConnector."""
    roles: Literal["Both", "ProducerConsumer"] = "Both"
    """vLLM's kv_role. Both: kv_both everywhere, as NixlConnector wants it. ProducerConsumer:
    kv_producer where prompts are prefilled and kv_consumer where answers are decoded."""
    extra_config: base.KubernetesObject | None = None
    """Settings of the connector itself (kv_connector_extra_config), by its own names, for example
    {shared_storage_path: /kv}."""


class Disaggregated(base.SpecModel):
    """Servers that prefill and servers that decode, behind a proxy.

    Image, args, env, pod and sharedMemory of the server apply to both.
    """

    prefill: RoleServers = Field(
        default_factory=RoleServers,
        description="Servers that compute prompts' KV cache.",
    )
    decode: RoleServers = Field(
        default_factory=RoleServers,
        description="Servers that decode: they write the answers.",
    )
    proxy: Proxy = Field(default_factory=Proxy)
    kv_transfer: KVTransfer

    def of_role(self, role: str) -> RoleServers:
        """Return the servers of the role prefill or decode."""
        return {ROLE_PREFILL: self.prefill, ROLE_DECODE: self.decode}[role]


def _flags_of_roles(split: Disaggregated, server: ValidationInfo) -> Disaggregated:
    if (engine := _engine_of(server)) is not None:
        for role in (ROLE_PREFILL, ROLE_DECODE):
            problem = engine.owned_flag(split.of_role(role).args)
            _refuse(problem, path=f".{role}.args")
    return split


def engines_with(has: Callable[[Engine], object]) -> list[EngineName]:
    """Return the names of the engines for which `has` returns a true value."""
    return [name for name, engine in ENGINES.items() if has(engine)]


_WITH_TRANSFER = engines_with(lambda engine: engine.transfer)
_WITH_NODES = engines_with(lambda engine: engine.nodes)
_COMPILING = engines_with(lambda engine: engine.compile_caches)


class Started(base.SpecModel):
    """Pods of a server engine that a run starts, measures and removes."""

    # The first field: what follows is checked by it, and fields are read in order.
    engine: EngineName = "VLLM"
    """The engine: how it is started, its flags, endpoints, metrics and log."""
    image: base.Text = Field(
        description="Image of the engine; of vLLM with the entry point `vllm serve`. Pin it by "
        "tag or digest."
    )
    args: ServerFlags = Field(default_factory=list)
    """Flags of the engine's server (`vllm serve`, `sglang.launch_server`, `llama-server`); the
    operator adds model, served name and port."""
    env: Annotated[Env, _refusing(_refused_variable)] = Field(default_factory=list)
    """Environment variables of the engine."""
    resources: Resources = Field(
        default_factory=Resources,
        description="Resources of the engine's container, including GPUs.",
    )
    pod: PodOverrides = Field(
        default_factory=PodOverrides, description="The pod of the engine."
    )
    shared_memory: Annotated[
        str, Field(max_length=16, pattern=r"^[0-9]+(Mi|Gi)$")
    ] = "2Gi"
    """Size of /dev/shm; tensor parallelism needs several GiB. Counts against the memory limit."""
    compile_cache_claim: base.NameOrNone | None = None
    """PersistentVolumeClaim that keeps what the engine compiles, in a folder for each image, kind
    of GPU, flags and variables. Left out: the platform's (the chart's runs.compileCacheClaim), if
    it has one; empty: none."""

    def args_of(self, role: str) -> list[str]:
        """Return the flags that the spec gives to the engine in this role."""
        del role
        return self.args

    def words_of(self, role: str) -> list[str] | None:
        """Return all words that the spec gives to the engine in this role.

        None if the command is a script, so it is not known what the engine gets.
        """
        return self.args_of(role)


class Server(Started):
    """The server this run starts, measures and removes."""

    @model_validator(mode="after")
    def _starts_on_every_node(self) -> Self:
        if (
            self.nodes_per_replica > 1
            and self.command
            and "serve" not in self.command
        ):
            text = (
                "only `vllm serve` starts a server over several nodes: use it, or leave "
                "nodesPerReplica at 1"
            )
            raise PydanticCustomError(
                "rule", "{text}", {"text": text, "path": ".command"}
            )
        return self

    rules = (
        base.Rule(
            cel="!has(self.disaggregated) || (self.replicas == 1 && "
            "(!has(self.resources) || ((!has(self.resources.limits) || "
            "size(self.resources.limits) == 0) && "
            "(!has(self.resources.requests) || size(self.resources.requests) == 0))))",
            message=(
                "disaggregated has servers of two roles: give replicas and resources under "
                "disaggregated.prefill and disaggregated.decode instead"
            ),
            path=".disaggregated",
        ),
        base.Rule(
            cel="!has(self.disaggregated) || self.nodesPerReplica == 1",
            message="disaggregated has servers of one node each: leave nodesPerReplica at 1",
            path=".nodesPerReplica",
        ),
        base.Rule(
            cel=(
                f"self.engine in {_COMPILING} || !has(self.compileCacheClaim) || "
                "self.compileCacheClaim == ''"
            ),
            message=f"compileCacheClaim needs engine {' or '.join(_COMPILING)}",
            path=".compileCacheClaim",
        ),
        base.Rule(
            cel=f"self.engine in {_WITH_TRANSFER} || !has(self.disaggregated)",
            message=f"disaggregated needs engine {' or '.join(_WITH_TRANSFER)}",
            path=".disaggregated",
        ),
        base.Rule(
            cel=f"self.engine in {_WITH_NODES} || self.nodesPerReplica == 1",
            message=f"a server over several nodes needs engine {' or '.join(_WITH_NODES)}: leave "
            "nodesPerReplica at 1",
            path=".nodesPerReplica",
        ),
    )
    command: Annotated[Args, Field(max_length=32), _refusing(_command_problem)] = (
        Field(default_factory=list)
    )
    """In place of the image's entry point, with $(MODEL), $(SERVED_NAME) and $(PORT). The
    operator's flags that the command does not have, and args, follow it."""
    replicas: Annotated[int, Field(ge=1, le=16)] = 1
    """Servers of this kind, each in its own pod with all resources; the requests go to them in
    turn."""
    nodes_per_replica: Annotated[int, Field(ge=1, le=16)] = 1
    """Pods that make up each server, together one vLLM; resources are those of each pod. More than
    one needs LeaderWorkerSet in the cluster, and parallel sizes in args whose product the pods
    share evenly."""
    disaggregated: (
        Annotated[Disaggregated, AfterValidator(_flags_of_roles)] | None
    ) = None

    def args_of(self, role: str) -> list[str]:
        """Return the server's flags, then the role's."""
        return [
            *self.args,
            *(
                self.disaggregated.of_role(role).args
                if self.disaggregated is not None
                else ()
            ),
        ]

    def words_of(self, role: str) -> list[str] | None:
        """Return the words of the command, then the flags; None if the command is a script."""
        return (
            None
            if is_script(self.command)
            else [*self.command, *self.args_of(role)]
        )


class Offline(Started):
    """vLLM's engine without its API server.

    Each load is one call, as in `vllm bench throughput` and `vllm bench latency`.
    """

    engine: Annotated[
        Literal["VLLM"], WithJsonSchema({"type": "string", "enum": ["VLLM"]})
    ] = Field("VLLM", description="The engine.")
    image: base.Text = Field(
        description="Image with vLLM, whose Python runs the engine and the client's code."
    )
    args: ServerFlags = Field(default_factory=list)
    """Flags of `vllm bench throughput`; the operator adds the model."""


class ServiceRef(base.SpecModel):
    """A Service in the run's namespace."""

    name: base.DnsLabel = Field(description="Name of the Service.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        8000, description="Port of the Service."
    )


class ConfigMapKeyRef(base.SpecModel):
    """A key of a ConfigMap in the run's namespace."""

    name: base.ObjectName = Field(description="Name of the ConfigMap.")
    key: base.Key = Field("ca.crt", description="Key within the ConfigMap.")


_OWNED_HEADERS = (
    *("host", "content-[a-z-]+", "accept", "accept-encoding", "transfer-encoding"),
    *("connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"),
    "expect",
)
_SECRET_WORDS = "auth|token|secret|passw|credential|cookie|session|api-?key"
_SECRET_NAMES = f"({_SECRET_WORDS}|(^|[-_.])(key|sig)([-_.]|$))"
"""What a name has that stands for a credential."""


def _differs_in_more_than_case(headers: list["Header"]) -> list["Header"]:
    seen: set[str] = set()
    for position, each in enumerate(headers):
        if (name := each.name.lower()) in seen:
            raise base.refused(
                f"[{position}].name: {each.name} is listed twice; headers that differ in case only "
                "are the same"
            )
        seen.add(name)
    return headers


class Header(base.SpecModel):
    """A header of every request. What looks like a credential comes from a Secret."""

    rules = (
        base.exactly_one("value", "secret_key_ref"),
        base.Rule(
            cel=f"!self.name.matches('(?i)^({'|'.join(_OWNED_HEADERS)})$')",
            message="the client sets this header itself: remove it",
            path=".name",
        ),
        base.Rule(
            cel=f"!has(self.value) || !(self.name.matches('(?i){_SECRET_NAMES}') || "
            "self.value.matches('(?i)^(bearer|basic) '))",
            message=(
                "this looks like a credential, which specs would show: put it into a Secret and "
                "name that in secretKeyRef"
            ),
            path=".value",
        ),
    )
    name: Annotated[
        str,
        Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*$"),
    ] = Field(description="Its name.")
    value: (
        Annotated[str, Field(max_length=1024, pattern=r"^[!-~]([ -~]*[!-~])?$")]
        | None
    ) = Field(None, description="Its value. Never a secret.")
    secret_key_ref: SecretKeyRef | None = Field(
        None, description="Secret with its whole value, such as `Basic ...`."
    )


class EndpointParameter(base.SpecModel):
    """A parameter in the URL of every request, where logs show it: never a credential."""

    rules = (
        base.Rule(
            cel=f"!self.name.matches('(?i){_SECRET_NAMES}')",
            message=(
                "this looks like a credential, which does not belong into a URL, since logs show "
                "it: send it in headers, from a Secret"
            ),
            path=".name",
        ),
    )
    name: Annotated[
        str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._~-]+$")
    ] = Field(description="Its name.")
    value: Annotated[str, Field(max_length=256, pattern=r"^[ -~]*$")] = Field(
        description="Its value; it is encoded as URLs need."
    )


class SecretRef(base.SpecModel):
    """A Secret in the run's namespace, which pods read and the operator never does."""

    name: base.ObjectName = Field(description="Name of the Secret.")


class PodMetrics(base.SpecModel):
    """Pods in the run's namespace, each with an engine's metrics."""

    labels: Annotated[
        dict[str, LabelValue],
        Field(min_length=1, max_length=8),
        AfterValidator(_checked_labels),
    ] = Field(description="Labels that a pod must have.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        8000, description="Port of its metrics."
    )


class EndpointMetrics(base.SpecModel):
    """Where the metrics of all servers behind a gateway are. Exactly one of `pods` and `urls`."""

    rules = (base.exactly_one("pods", "urls"),)
    pods: PodMetrics | None = None
    """Pods by their labels: also running, waiting and KV cache, and replicas that come and go."""
    urls: (
        Annotated[
            list[
                Annotated[
                    str,
                    Field(
                        max_length=512, pattern=r"^https?://[^/?#@\s]+/[^?#\s]*$"
                    ),
                ]
            ],
            Field(min_length=1, max_length=64),
            base.Unique(),
        ]
        | None
    ) = None
    """Metrics page of each server. The client alone reads them, before and after each stage, so
    running, waiting and KV cache are not known."""


class Endpoint(base.SpecModel):
    """The server is measured and otherwise left alone. Exactly one of `serviceRef` and `url`."""

    rules = (
        base.exactly_one("service_ref", "url"),
        base.Rule(
            cel="!has(self.clientCertificateSecretRef) || "
            "(has(self.url) && self.url.matches('^https://'))",
            message="a client certificate is used with TLS only: set url to https://...",
            path=".clientCertificateSecretRef",
        ),
        base.Rule(
            cel="!has(self.apiKeySecretRef) || !has(self.headers) || "
            "self.headers.all(h, !h.name.matches('(?i)^authorization$'))",
            message=(
                "apiKeySecretRef is sent as the header Authorization: remove it, or the header"
            ),
            path=".apiKeySecretRef",
        ),
    )
    engine: EngineName = Field(
        "VLLM", description="Engine of the server: it defines the metrics."
    )
    service_ref: ServiceRef | None = None
    """Service of the server; its pods are scraped for running, waiting and KV cache, unless metrics
    says otherwise."""
    url: (
        Annotated[
            str,
            Field(max_length=1024, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$"),
        ]
        | None
    ) = None
    """Base URL of the server with any path before /v1, and without /v1. Only the client pod ever
    connects to it."""
    api_key_secret_ref: SecretKeyRef | None = Field(
        None, description="API key for the server."
    )
    ca_config_map_ref: ConfigMapKeyRef | None = Field(
        None, description="Certificate of the server's CA."
    )
    client_certificate_secret_ref: SecretRef | None = Field(
        None,
        description="Secret of the type kubernetes.io/tls, shown to the server.",
    )
    headers: Annotated[
        list[Header],
        Field(max_length=16),
        base.Unique("name"),
        AfterValidator(_differs_in_more_than_case),
    ] = Field(default_factory=list)
    """Headers of every request to the endpoint, and to no other address."""
    query: Annotated[
        list[EndpointParameter], Field(max_length=16), base.Unique("name")
    ] = Field(
        default_factory=list, description="Parameters of every request's URL."
    )
    metrics: EndpointMetrics | None = None
    """Where the servers' metrics are, if a gateway stands between: it has none of theirs."""
    allow_cache_reset: bool = False
    """Allow cachePolicy Reset to empty the server's prefix cache, for all users."""


class Profile(base.SpecModel):
    """Seconds of the last workload's highest load under vLLM's torch profiler."""

    seconds: int = Field(
        5,
        ge=1,
        le=30,
        description="How long; the server is held for 300 s at most.",
    )
    claim_name: base.ObjectName | None = Field(
        None, description="PersistentVolumeClaim that keeps the trace."
    )
