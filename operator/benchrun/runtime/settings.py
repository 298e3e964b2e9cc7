"""Settings of the process, from its environment."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args

from benchrun.decide.decision import GpuExporters, PodRoad
from benchrun.runtime.latest_results import MAX_RUNS

LogFormat = Literal["json", "plain"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
OWN_NAMESPACE = "benchrun-system"
MAX_WORKERS = 64

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[-./_A-Za-z0-9]{1,317}=[-._A-Za-z0-9]{0,63}")
_T = TypeVar("_T")


class BadSetting(ValueError):
    """A variable can't be used; the text names it, what it holds, and what it must be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How this operator runs."""

    client_image: str
    client_image_pull_policy: PullPolicy = "IfNotPresent"
    namespaces: tuple[str, ...] = ()
    """Namespaces to work in; none is the whole cluster."""
    listen_host: str = "0.0.0.0"
    listen_port: int = 8080
    """Of /healthz, /readyz and /metrics."""
    log_level: LogLevel = "INFO"
    log_format: LogFormat = "json"
    workers: int = 8
    """Passes at the same time."""
    resync_seconds: int = 300
    """How often everything is listed and looked at again."""
    unschedulable_grace_seconds: int = 900
    """How long a pod that no node could ever take waits for one to be added. An autoscaler gives up on a node after 15
    minutes (cluster-autoscaler's --max-node-provision-time, Karpenter's registration TTL), so waiting longer is in vain."""
    result_runs: int = 20
    """How many of the newest finished runs have their figures on /metrics."""
    pod_road: PodRoad = "Direct"
    """Through the API server where pods' addresses are not reachable: an operator outside the cluster."""
    gpu_exporters: GpuExporters | None = None
    """Pods that tell of the GPUs of their node; None: nothing of GPUs is read."""
    network_policies: bool = False
    """Whether every run gets NetworkPolicies; servers in development mode always do."""
    network_policy_peers: tuple[dict[str, Any], ...] = ()
    """Who else may connect to servers, as NetworkPolicy peers."""
    max_hold_seconds: int = 86_400
    """How long a server may be held once it is scheduled, whatever its deadlines say."""
    run_metrics: bool = False
    """Whether /metrics, which anybody may read who reaches it, tells of single runs and their figures."""
    operator_namespace: str = OWN_NAMESPACE
    """The operator's own, where its key and its Lease are."""
    leader_election: bool = False
    """Whether passes are made by the holder of a Lease only."""
    lease_name: str = "benchrun-operator"
    pod_name: str = ""
    """By which the holder of the Lease is told from others; the host's name if empty."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read `BENCHRUN_*`. Raises BadSetting."""
        read = _Reader(environment)
        host, port = read.value("BENCHRUN_LISTEN", "0.0.0.0:8080", _address)
        return cls(
            client_image=read.value("BENCHRUN_CLIENT_IMAGE", "", _image),
            client_image_pull_policy=read.one_of("BENCHRUN_CLIENT_IMAGE_PULL_POLICY", "IfNotPresent", PullPolicy),
            namespaces=read.value("BENCHRUN_NAMESPACES", "", _namespaces),
            listen_host=host,
            listen_port=port,
            log_level=read.one_of("BENCHRUN_LOG_LEVEL", "INFO", LogLevel),
            log_format=read.one_of("BENCHRUN_LOG_FORMAT", "json", LogFormat),
            workers=read.value("BENCHRUN_WORKERS", "8", _whole(1, MAX_WORKERS)),
            resync_seconds=read.value("BENCHRUN_RESYNC_SECONDS", "300", _whole(10, 86_400)),
            result_runs=read.value("BENCHRUN_RESULT_RUNS", "20", _whole(0, MAX_RUNS)),
            pod_road=read.one_of("BENCHRUN_POD_ROAD", "Direct", PodRoad),
            gpu_exporters=_gpu_exporters(read),
            run_metrics=read.flag("BENCHRUN_RUN_METRICS"),
            operator_namespace=read.value("BENCHRUN_NAMESPACE", OWN_NAMESPACE, _own_namespace),
            leader_election=read.flag("BENCHRUN_LEADER_ELECTION"),
            lease_name=read.value("BENCHRUN_LEASE", "benchrun-operator", _lease),
            pod_name=read.value("BENCHRUN_POD_NAME", "", str),
            unschedulable_grace_seconds=read.value("BENCHRUN_UNSCHEDULABLE_GRACE_SECONDS", "900", _whole(0, 86_400)),
            network_policies=read.flag("BENCHRUN_NETWORK_POLICIES"),
            network_policy_peers=read.value("BENCHRUN_NETWORK_POLICY_PEERS", "[]", _peers),
            max_hold_seconds=read.value("BENCHRUN_MAX_HOLD_SECONDS", "86400", _whole(60, 31_536_000)),
        )


class _Reader:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def value(self, name: str, default: str, parse: Callable[[str], _T]) -> _T:
        text = self._environment.get(name, default).strip()
        try:
            return parse(text)
        except ValueError as error:
            raise BadSetting(f"{name} is {text!r}: {error}") from error

    def one_of(self, name: str, default: str, choices: type[_T] | object) -> _T:
        def choose(text: str) -> str:
            if text not in get_args(choices):
                raise ValueError(f"must be one of {', '.join(get_args(choices))}")
            return text

        return cast(_T, self.value(name, default, choose))

    def flag(self, name: str) -> bool:
        def parse(text: str) -> bool:
            if text not in ("true", "false"):
                raise ValueError("must be true or false")
            return text == "true"

        return self.value(name, "false", parse)


def _image(text: str) -> str:
    if not text or re.search(r"\s", text):
        raise ValueError("must be the image of the client that ships with this operator")
    return text


def _namespaces(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part for raw in text.split(",") if (part := raw.strip())))
    for name in found:
        if not _NAMESPACE.fullmatch(name):
            raise ValueError(f"must be names of namespaces, separated by commas; {name!r} is none")
    return found


def _gpu_exporters(read: _Reader) -> GpuExporters | None:
    namespace = read.value("BENCHRUN_GPU_EXPORTER_NAMESPACE", "", _namespace)
    selector = read.value("BENCHRUN_GPU_EXPORTER_SELECTOR", "app=nvidia-dcgm-exporter", _selector)
    port = read.value("BENCHRUN_GPU_EXPORTER_PORT", "9400", _whole(1, 65_535))
    return GpuExporters(namespace, selector, port) if namespace else None


def _namespace(text: str) -> str:
    if text and not _NAMESPACE.fullmatch(text):
        raise ValueError("must be the name of a namespace, or empty")
    return text


def _own_namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise ValueError("must be the name of the operator's own namespace")
    return text


def _lease(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("must be the name of a Lease")
    return text


def _peers(text: str) -> tuple[dict[str, Any], ...]:
    found = json.loads(text or "[]")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("must be a JSON list of NetworkPolicy peers")
    return tuple(found)


def _selector(text: str) -> str:
    if not text or not all(_LABEL.fullmatch(part) for part in text.split(",")):
        raise ValueError("must be labels as key=value, separated by commas")
    return text


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ValueError("must be host:port, for example 0.0.0.0:8080")
    return host.strip("[]") or "0.0.0.0", int(port)


def _whole(least: int, greatest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= greatest:
            raise ValueError(f"must be a whole number from {least} to {greatest}")
        return int(text)

    return parse
