"""Read the settings of the operator's process from environment variables."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
)
from pydantic.fields import FieldInfo

from benchrun.api import first_problem
from benchrun.decide import ExporterKind, Exporters, PodRoad
from benchrun.plan import MAX_DEFAULTS_BYTES, NO_DEFAULTS, RunDefaults
from benchrun.runtime.memory import MAX_RUNS

MAX_WORKERS = 64
_NAMESPACE = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME = "[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"
_LABEL = "[-./_A-Za-z0-9]{1,317}=[-._A-Za-z0-9]{0,63}"


def _parsed(given: object) -> object:
    number = int(given) if isinstance(given, str) and given.isdecimal() else given
    return {"true": True, "false": False}.get(str(given), number)


def _listed(given: object) -> object:
    """Split text at commas, without repeats; return other values unchanged."""
    return (
        tuple(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))
        if isinstance(given, str)
        else given
    )


def _json(given: object) -> object:
    return json.loads(given or "[]") if isinstance(given, str) else given


def _address(given: object) -> object:
    if isinstance(given, tuple):
        return given
    host, colon, port = str(given).rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ValueError("not host:port")
    return host.strip("[]") or "0.0.0.0", int(port)


LogFormat = Literal["json", "plain"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
Whole = Annotated[int, Strict(), BeforeValidator(_parsed)]
Flag = Annotated[
    bool, Strict(), BeforeValidator(_parsed), Field(description="true or false")
]
Namespace = Annotated[str, Field(pattern=f"^{_NAMESPACE}$")]
ExporterNamespace = Annotated[
    str,
    Field(
        pattern=f"^({_NAMESPACE})?$",
        description="the name of a namespace, or empty",
    ),
]
Labels = Annotated[
    str,
    Field(
        pattern=f"^{_LABEL}(,{_LABEL})*$",
        description="labels key=value, separated by commas",
    ),
]
_NAMED_OTHERWISE = {
    "operator_namespace": "BENCHRUN_NAMESPACE",
    "lease_name": "BENCHRUN_LEASE",
}


class BadSetting(ValueError):
    """A variable is not valid; the text names the variable, its value, and what it must be."""


def _run_defaults(given: object) -> RunDefaults:
    """Parse the platform's defaults. Raises BadSetting, which names the field below `runs`."""
    if isinstance(given, RunDefaults):
        return given
    text = str(given) or "{}"
    if (size := len(text.encode())) > MAX_DEFAULTS_BYTES:
        raise BadSetting(
            f"runs (BENCHRUN_RUN_DEFAULTS) has {size} bytes as JSON; the limit is "
            f"{MAX_DEFAULTS_BYTES}: give only what all runs need"
        )
    try:
        return RunDefaults.model_validate_json(text)
    except ValidationError as error:
        raise BadSetting(
            f"{first_problem(error, root='runs')}: correct the chart's runs "
            "(BENCHRUN_RUN_DEFAULTS)"
        ) from error


class OperatorSettings(BaseModel):
    """How this operator runs.

    A field's description says what its variable must be, if its type does not.
    """

    model_config = ConfigDict(frozen=True)

    listen: Annotated[tuple[str, int], BeforeValidator(_address)] = Field(
        ("0.0.0.0", 8080), description="host:port, for example 0.0.0.0:8080"
    )
    """Host and port of /healthz, /readyz and /metrics."""
    gpu_exporter_namespace: ExporterNamespace = ""
    gpu_exporter_selector: Labels = "app=nvidia-dcgm-exporter"
    gpu_exporter_port: Whole = Field(9400, ge=1, le=65_535)
    cpu_exporter_namespace: ExporterNamespace = ""
    cpu_exporter_selector: Labels = "app=cadvisor"
    cpu_exporter_port: Whole = Field(8080, ge=1, le=65_535)
    client_image: str = Field(
        pattern=r"^\S+$",
        description="the image of the client that ships with this operator",
    )
    client_image_pull_policy: PullPolicy = "IfNotPresent"
    namespaces: Annotated[tuple[Namespace, ...], BeforeValidator(_listed)] = Field(
        (), description="names of namespaces, separated by commas"
    )
    """Namespaces to work in; empty: the whole cluster."""
    log_level: LogLevel = "INFO"
    log_format: LogFormat = "json"
    workers: Whole = Field(8, ge=1, le=MAX_WORKERS)
    """Number of runs and sweeps reconciled at the same time."""
    resync_seconds: Whole = Field(300, ge=10, le=86_400)
    """Seconds between two complete lists; after each list, everything is reconciled."""
    unschedulable_grace_seconds: Whole = Field(900, ge=0, le=86_400)
    """Seconds that a pod that fits no node waits for a new one. An autoscaler gives up on a node
    after 15 minutes (cluster-autoscaler's --max-node-provision-time, Karpenter's registration TTL),
    so waiting longer is in vain."""
    result_runs: Whole = Field(20, ge=0, le=MAX_RUNS)
    """Number of the newest finished runs with figures on /metrics."""
    # Proxy where pods' addresses are not reachable: an operator outside the cluster
    pod_road: PodRoad = "Direct"
    # whether every run gets NetworkPolicies; servers in development mode always do
    network_policies: Flag = False
    network_policy_peers: Annotated[
        tuple[dict[str, Any], ...], BeforeValidator(_json)
    ] = Field((), description="a JSON list of NetworkPolicy peers")
    """Further peers that may connect to servers."""
    # whether runs and records are deleted only once they are archived, by another process
    archive: Flag = False
    # whether runs may wait in queues of Kueue, which needs rights over Workloads
    kueue: Flag = False
    run_defaults: Annotated[RunDefaults, BeforeValidator(_run_defaults)] = (
        NO_DEFAULTS
    )
    """What all runs get that do not say it themselves."""
    max_hold_seconds: Whole = Field(86_400, ge=60, le=31_536_000)
    """Most seconds that a server is held after it was scheduled, whatever its deadlines say."""
    # whether /metrics, which anybody who reaches it may read, has single runs and figures
    run_metrics: Flag = False
    operator_namespace: Namespace = Field(
        "benchrun-system", description="the name of the operator's own namespace"
    )
    """Namespace of the operator's key and its Lease."""
    leader_election: Flag = False  # whether only the holder of a Lease reconciles
    lease_name: str = Field(
        "benchrun-operator", pattern=f"^{_NAME}$", description="the name of a Lease"
    )
    pod_name: str = ""  # name of the holder of the Lease; the host's name if empty

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings from the variables `BENCHRUN_*`. Raises BadSetting."""
        variables = {
            name: _NAMED_OTHERWISE.get(name, f"BENCHRUN_{name.upper()}")
            for name in cls.model_fields
        }
        given = {
            name: environment[v].strip()
            for name, v in variables.items()
            if v in environment
        }
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            if isinstance(cause := first.get("ctx", {}).get("error"), BadSetting):
                raise cause from error
            name = str(first["loc"][0])
            wanted = _wanted(cls.model_fields[name])
            raise BadSetting(
                f"{variables[name]} is {given.get(name, '')!r}: must be {wanted}"
            ) from error

    @property
    def exporters(self) -> Mapping[ExporterKind, Exporters]:
        """Return where the exporters of GPU and of container metrics are, by kind of exporter.

        A kind without a namespace is left out.
        """
        gpu = Exporters(
            self.gpu_exporter_namespace,
            self.gpu_exporter_selector,
            self.gpu_exporter_port,
        )
        cpu = Exporters(
            self.cpu_exporter_namespace,
            self.cpu_exporter_selector,
            self.cpu_exporter_port,
        )
        kinds: Mapping[ExporterKind, Exporters] = {"gpu": gpu, "cpu": cpu}
        return {
            kind: exporters
            for kind, exporters in kinds.items()
            if exporters.namespace
        }


def _wanted(field: FieldInfo) -> str:
    if field.description is not None:
        return field.description
    if choices := get_args(field.annotation):
        return f"one of {', '.join(choices)}"
    least, most = (
        next(getattr(m, end) for m in field.metadata if hasattr(m, end))
        for end in ("ge", "le")
    )
    return f"a whole number from {least} to {most}"
