"""Build the roles of servers that a run starts, with manifests of their workloads and Services.

The role is `server`, with or without the engine's API server; or the roles are `prefill`, `decode`
and `proxy`. A Deployment or a LeaderWorkerSet creates their pods; the Service is headless.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchrun_client.engines import Engine

from benchrun import names
from benchrun.api import BenchmarkRunSpec, Disaggregated, PodOverrides
from benchrun.plan import child_objects, server_pod
from benchrun.plan.child_objects import Manifest, Owner
from benchrun.plan.run_defaults import (
    NOTHING_APPLIED,
    Applied,
    settings_of,
    with_defaults,
)

PROXY_USER = 65532
PROXY_REQUESTS = {"cpu": "500m", "memory": "256Mi"}
PROXY_MODULE = "benchrun_client.proxy"


def role_url(owner: Owner, spec: BenchmarkRunSpec, role: str) -> str:
    """Return the URL of the servers of a role."""
    return (
        f"http://{names.child_name(owner.name, owner.uid, role)}"
        f".{owner.namespace}.svc:{spec.engine.port}"
    )


def proxy_pod(
    owner: Owner,
    spec: BenchmarkRunSpec,
    split: Disaggregated,
    *,
    client_image: str,
    pull_policy: str,
    applied: Applied = NOTHING_APPLIED,
) -> dict[str, Any]:
    """Build the spec of the proxy's pod, scheduled like the client's.

    `spec` is without the platform's defaults, which `applied` has.

    The built-in proxy is in the client's image; an image of the user has its own entry point.
    """
    proxy = split.proxy
    settings = settings_of(spec, names.ROLE_PROXY, applied)
    port = spec.engine.port
    roles = {"PREFILL_URL": names.ROLE_PREFILL, "DECODE_URL": names.ROLE_DECODE}
    ours = [
        f"--engine={spec.engine_name}",
        "--prefill=$(PREFILL_URL)",
        "--decode=$(DECODE_URL)",
        f"--port={port}",
        f"--prefill-replicas={split.prefill.replicas}",
        f"--decode-replicas={split.decode.replicas}",
    ]
    program: dict[str, Any] = {
        "command": ["python3", "-m", PROXY_MODULE],
        "args": [*ours, *proxy.args],
    }
    container = {
        "name": names.PROXY_CONTAINER,
        "image": proxy.image or client_image,
        "imagePullPolicy": pull_policy if proxy.image is None else "IfNotPresent",
        **(program if proxy.image is None else {"args": proxy.args}),
        "env": child_objects.environment(
            {},
            child_objects.as_listed(settings.env),
            [
                {"name": name, "value": role_url(owner, spec, role)}
                for name, role in roles.items()
            ],
        ),
        **child_objects.http_port(port, health_path="/health"),
        "resources": child_objects.resources(
            settings.resources, requests=PROXY_REQUESTS
        ),
        "securityContext": {
            **child_objects.with_capabilities(applied.defaults.proxy.capabilities),
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    user = None if applied.defaults.user_from_namespace else PROXY_USER
    return child_objects.pod_spec(
        container, [child_objects.TMP], settings.pod, user=user
    )


@dataclass(frozen=True, slots=True)
class Role:
    """Serving pods of one role."""

    name: str
    engine: Engine
    replicas: int
    # Spec of each pod; for servers over several nodes, the leader's.
    pod_spec: dict[str, Any]
    hold_seconds: int  # Seconds that its pods may hold their nodes, with an operator or without.
    nodes: int = 1  # Number of pods that make up each server.
    # How its pods are placed and labelled.
    pod: PodOverrides = field(default_factory=PodOverrides)


def role_replicas(spec: BenchmarkRunSpec) -> Mapping[str, int]:
    """Return how many servers each role is to have; empty for an endpoint."""
    if spec.offline is not None:
        return {names.ROLE_SERVER: 1}
    if spec.server is None:
        return {}
    if spec.server.disaggregated is None:
        return {names.ROLE_SERVER: spec.server.replicas}
    split = spec.server.disaggregated
    return {
        names.ROLE_PREFILL: split.prefill.replicas,
        names.ROLE_DECODE: split.decode.replicas,
        names.ROLE_PROXY: 1,
    }


def cpu_limits(spec: BenchmarkRunSpec) -> Mapping[str, str]:
    """Return the field of the spec that limits a server's CPU, for each role with such a limit."""
    found = (
        {names.ROLE_SERVER: (f"{spec.started_name}", spec.started.resources)}
        if spec.started is not None
        else {}
    )
    if spec.server is not None and (split := spec.server.disaggregated) is not None:
        roles = (names.ROLE_PREFILL, names.ROLE_DECODE)
        found = {
            role: (f"server.disaggregated.{role}", split.of_role(role).resources)
            for role in roles
        }
    return {
        role: f"spec.{path}.resources.limits.cpu"
        for role, (path, given) in found.items()
        if "cpu" in given.limits
    }


def nodes(spec: BenchmarkRunSpec) -> int:
    """Return how many pods make up each server."""
    return spec.server.nodes_per_replica if spec.server is not None else 1


def answering_servers(spec: BenchmarkRunSpec) -> int:
    """Return how many servers write answers; 0 for an endpoint."""
    return sum(
        count
        for role, count in role_replicas(spec).items()
        if role in names.ANSWERING_ROLES
    )


def front_role(spec: BenchmarkRunSpec) -> str:
    """Return the role that requests are sent to."""
    return (
        names.ROLE_PROXY
        if names.ROLE_PROXY in role_replicas(spec)
        else names.ROLE_SERVER
    )


def server_roles(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    client_image: str,
    pull_policy: str,
    max_hold_seconds: int = child_objects.MAX_HOLD_SECONDS,
    applied: Applied = NOTHING_APPLIED,
) -> tuple[Role, ...]:
    """Build the roles to start; none for an endpoint.

    Proxy and offline engine use code from the client's image.
    """
    starts = 1 if sum(role_replicas(spec).values()) * nodes(spec) == 1 else 2
    hold = child_objects.hold_seconds(spec, max_hold_seconds, starts=starts)
    pods = {
        role: _pod_spec(
            owner, spec, role, client_image, pull_policy, applied=applied
        )
        for role in role_replicas(spec)
    }
    return tuple(
        Role(
            role,
            spec.engine,
            count,
            pods[role],
            hold,
            nodes(spec),
            settings_of(spec, role, applied).pod,
        )
        for role, count in role_replicas(spec).items()
    )


def _pod_spec(
    owner: Owner,
    spec: BenchmarkRunSpec,
    role: str,
    client_image: str,
    pull_policy: str,
    *,
    applied: Applied,
) -> dict[str, Any]:
    defaults = applied.defaults
    declared = spec
    spec = with_defaults(spec, applied)
    platform: dict[str, Any] = {
        "capabilities": defaults.of_role(spec, role).capabilities,
        "user_from_namespace": defaults.user_from_namespace,
    }
    server = spec.server
    if spec.offline is not None:
        args = started_args(spec)
        pod = server_pod.engine_pod(
            owner,
            spec,
            spec.offline,
            args=args,
            resources=spec.offline.resources,
            **platform,
        )
        return server_pod.without_api_server(
            pod, client_image=client_image, pull_policy=pull_policy
        )
    assert server is not None, "an endpoint has no roles"
    if (split := server.disaggregated) is not None and role == names.ROLE_PROXY:
        return proxy_pod(
            owner,
            declared,
            split,
            client_image=client_image,
            pull_policy=pull_policy,
            applied=applied,
        )
    address = _own_address(spec)
    env: list[dict[str, Any]] = []
    mode = spec.engine.development_mode
    if spec.measurement.cache_policy == "Reset" and mode is not None:
        env.append({"name": mode, "value": "1"})
    if address is not None and all(each.name != address for each in server.env):
        env.append(
            {
                "name": address,
                "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
            }
        )
    args = started_args(spec, role)
    resources = (split.of_role(role) if split is not None else server).resources
    pod = server_pod.engine_pod(
        owner,
        spec,
        server,
        args=args,
        resources=resources,
        own_env=env,
        **platform,
    )
    return server_pod.with_profiler(owner, spec, pod)


def _own_address(spec: BenchmarkRunSpec) -> str | None:
    """Return the name of the variable with a pod's own address; None if no other pod needs it."""
    assert spec.server is not None, "an endpoint has no roles"
    if spec.server.disaggregated is not None and spec.engine.transfer is not None:
        return spec.engine.transfer.address
    if nodes(spec) > 1 and spec.engine.nodes is not None:
        return spec.engine.nodes.address
    return None


def in_development_mode(spec: BenchmarkRunSpec) -> bool:
    """Return whether the servers open the engine's development endpoints.

    They do if the operator needs them for the cache policy Reset, or if the user asks for them.
    Such servers never run without a NetworkPolicy.
    """
    mode = spec.engine.development_mode
    if spec.server is None or mode is None:
        return False
    by_user = any(v.name == mode and v.value != "0" for v in spec.server.env)
    return by_user or spec.measurement.cache_policy == "Reset"


def started_args(
    spec: BenchmarkRunSpec, role: str = names.ROLE_SERVER
) -> list[str]:
    """Build the arguments of the server that the run starts in this role; none for an endpoint.

    The operator's arguments come first, so that the user's flags override them.
    """
    engine = spec.engine
    if spec.offline is not None:
        path, *flags = engine.serve_args(server_pod.served_files(spec), ())
        return [f"--model={path}", *flags, *spec.offline.args]
    if spec.server is None:
        return []
    own = engine.serve_args(server_pod.served_files(spec), spec.server.command)
    if nodes(spec) > 1 and engine.nodes is not None:
        own += engine.nodes.args(nodes(spec))
    if spec.server.disaggregated is not None and engine.transfer is not None:
        transfer = spec.server.disaggregated.kv_transfer
        kv_role = None if transfer.roles == "Both" else role
        own += engine.transfer.args(
            transfer.connector, kv_role, transfer.extra_config
        )
    return [*own, *spec.server.args_of(role)]


def answering_args(spec: BenchmarkRunSpec) -> list[str]:
    """Return the command and arguments of the servers that write answers.

    If the command is a script, the arguments within it are not included.
    """
    return [
        *server_pod.started_command(spec),
        *started_args(spec, names.ROLE_DECODE),
    ]


_A_YEAR_SECONDS = 31_536_000


def workload(owner: Owner, role: Role) -> Manifest:
    """Build the manifest of the workload that creates the role's pods.

    This is a Deployment, or a LeaderWorkerSet if each server is a group of pods over several nodes.
    """
    labels = names.labels(run=owner.name, uid=owner.uid, role=role.name)
    name = None
    pod = child_objects.pod_metadata(owner, role.name, role.pod)
    if role.nodes == 1:
        kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
        spec = {
            "replicas": role.replicas,
            "revisionHistoryLimit": 0,
            # The run's own deadlines decide; Kubernetes' would only add a second opinion.
            "progressDeadlineSeconds": _A_YEAR_SECONDS,
            "strategy": {
                "type": "Recreate"
            },  # two servers at once would need two GPUs
            "selector": {"matchLabels": labels},
            "template": {"metadata": pod, "spec": role.pod_spec},
        }
    else:
        kind = {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
        }
        name = names.group_name(owner.name, owner.uid)
        spec = {
            "replicas": role.replicas,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": role.nodes,
                # A new group would be another server, and would take the log of the pod that failed
                # with it.
                "restartPolicy": "None",
                "leaderTemplate": {"metadata": pod, "spec": role.pod_spec},
                "workerTemplate": {
                    "metadata": pod,
                    "spec": server_pod.worker_pod(role.engine, role.pod_spec),
                },
            },
        }
    about = child_objects.metadata(owner, name=name, role=role.name)
    about["annotations"] = {names.ANNOTATION_HOLD: str(role.hold_seconds)}
    return {**kind, "metadata": about, "spec": spec}


def service(owner: Owner, role: Role) -> Manifest:
    """Build the Service that gives the client the addresses of pods before they are ready.

    So the client itself sees the first healthy answer. If a server spans several nodes, the Service
    has only its leader.
    """
    leaders = {} if role.nodes == 1 else {names.LABEL_WORKER_INDEX: "0"}
    return child_objects.headless_service(
        owner, role.name, port_name="http", port=role.engine.port, selector=leaders
    )
