"""Build the client's ConfigMap, Job and Service, and divide its load over processes and pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any

from benchrun_client.contract import (
    GATE_PORT,
    PLAN_FILE,
    RECORD_PORT,
    LoadKind,
    Plan,
)

from benchrun import names
from benchrun.api import (
    MAX_PROCESSES,
    BenchmarkRunSpec,
    ChatTemplate,
    EnvVar,
    Resources,
)
from benchrun.plan import child_objects
from benchrun.plan.child_objects import (
    Manifest,
    Owner,
    as_listed,
    metadata,
    mounted_at,
)
from benchrun.plan.mounted_files import (
    TEMPLATE_KEY,
    data_files,
    endpoint_files,
    model_files,
    template_files,
)
from benchrun.plan.run_defaults import (
    NOTHING_APPLIED,
    Applied,
    RunDefaults,
    preparation_env,
    with_defaults,
)

STREAMS_A_PROCESS = 150
RATE_A_PROCESS = 100
"""Most requests a second of one client process; STREAMS_A_PROCESS is the most answers at a time. Up
to these numbers, measurements showed that the median TTFT that vLLM's client reports is within a
third of the true one (vLLM 0.32, 64 tokens an answer, a server of known timing, cores of a shared
virtual machine). With more the error grows quickly."""


@dataclass(frozen=True, slots=True)
class Division:
    """How many processes (shards) send the load, and how many of them a pod has.

    The last pod may have fewer.
    """

    shards: int
    processes: int

    @property
    def pods(self) -> int:
        """Return how many pods the client has."""
        return ceil(self.shards / self.processes)


def division_of(spec: BenchmarkRunSpec) -> Division:
    """Compute into how many processes and pods the client is divided.

    A process takes a core; a pod holds as many processes as its container has whole cores.
    """
    shards = spec.client.parallelism
    if not isinstance(shards, int):
        # For the highest load in the spec. That of an offline engine, of sessions, or of what is
        # decided on while it is measured, only one process can send.
        is_chosen = spec.until_decided or any(
            workload.load.search is not None or workload.load.sessions is not None
            for workload in spec.workloads
        )
        is_shared = spec.offline is None and not is_chosen
        needed = [
            _needed_at(load, requests=each.requests_at(load))
            for each in spec.workloads
            for load in each.load.points
            if is_shared
        ]
        most = max(needed, default=1.0)
        shards = min(max(ceil(most), 1), MAX_PROCESSES)
    return Division(
        shards=shards,
        processes=min(shards, max(_whole_cores(spec.client.resources), 1)),
    )


def _needed_at(load: LoadKind, *, requests: int) -> float:
    """Return how many processes, as a fraction, one load point needs.

    Return 1 if neither the rate nor the requests in flight are known, as for a trace.
    """
    if load.rate is not None:
        return load.rate / RATE_A_PROCESS
    streams = load.most_in_flight(requests)
    return 1.0 if streams is None else streams / STREAMS_A_PROCESS


def _whole_cores(resources: Resources) -> int:
    """Return the whole cores of the CPU request, or of the limit where there is no request."""
    quantity = str(
        resources.requests.get("cpu") or resources.limits.get("cpu") or "0"
    )
    if quantity.endswith("m"):
        return int(Decimal(quantity[:-1]) / 1000)
    return int(Decimal(quantity)) if quantity[-1].isdigit() else 1


CLIENT_USER = 65532
PLAN_DIRECTORY = "/etc/benchrun"
_HOME = {
    "HOME": "/tmp",
    "USER": "benchrun",
    "LOGNAME": "benchrun",
    "XDG_CACHE_HOME": "/tmp/.cache",
}


def plan_config_map(
    owner: Owner,
    plan: Plan,
    template: ChatTemplate | None = None,
    *,
    noted: Mapping[str, str] | None = None,
) -> Manifest:
    """Build the immutable ConfigMap of the plan, with the text of an inline chat template.

    Later reconciles read the plan's digest from it, and the platform's defaults (`noted`), because
    another operator might make another plan.
    """
    meta = metadata(
        owner, name=names.plan_name(owner.name, owner.uid), role=names.ROLE_PLAN
    )
    meta["annotations"] = {
        names.ANNOTATION_PLAN_DIGEST: plan.digest(),
        names.ANNOTATION_TOKEN_DIGEST: plan.token_digest,
        **(noted or {}),
    }
    data = {PLAN_FILE: plan.to_json()}
    if template is not None and template.inline is not None:
        data[TEMPLATE_KEY] = template.inline
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    return {**about, "immutable": True, "data": data}


def client_job(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    plan_digest: str | None,
    default_image: str,
    pull_policy: str,
    max_hold_seconds: int = child_objects.MAX_HOLD_SECONDS,
    applied: Applied = NOTHING_APPLIED,
    noted: Mapping[str, str] | None = None,
) -> Manifest:
    """Build the client's Job, with one attempt and one completion for each pod.

    There is no second attempt, because a second client would measure a warmed server. `plan_digest`
    is the digest of the plan that the Job mounts; None if the plan's ConfigMap does not have it.
    `noted` is the platform's defaults, for the servers of a run whose plan is lost.
    """
    preparing = preparation_env(spec, applied)
    spec = with_defaults(spec, applied)
    meta = metadata(owner, role=names.ROLE_CLIENT)
    pods_wanted = division_of(spec).pods
    digest = (
        {} if plan_digest is None else {names.ANNOTATION_PLAN_DIGEST: plan_digest}
    )
    # Were a Job of several pods over with the first that fails, its controller would end shard 0
    # before it has reported which was lost: each has an attempt of its own.
    of_several = {"backoffLimitPerIndex": 0, "maxFailedIndexes": pods_wanted}
    image = spec.client.image or default_image
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**meta, "annotations": {**digest, **(noted or {})}},
        "spec": {
            **({"backoffLimit": 0} if pods_wanted == 1 else of_several),
            "completions": pods_wanted,
            "parallelism": pods_wanted,
            "completionMode": "Indexed",
            "activeDeadlineSeconds": child_objects.client_seconds(
                spec, max_hold_seconds
            ),
            "template": {
                "metadata": child_objects.pod_metadata(
                    owner, names.ROLE_CLIENT, spec.client.pod
                ),
                "spec": _pod_spec(
                    owner,
                    spec,
                    image=image,
                    pull_policy=pull_policy,
                    defaults=applied.defaults,
                    preparing=preparing,
                ),
            },
        },
    }


def client_service(owner: Owner) -> Manifest:
    """Build the Service that gives the client's pods DNS names before they are ready.

    The other pods connect to the first pod while it prepares.
    """
    return child_objects.headless_service(
        owner, names.ROLE_CLIENT, port_name="gate", port=GATE_PORT, selector={}
    )


def _pod_spec(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    image: str,
    pull_policy: str,
    defaults: RunDefaults,
    preparing: Sequence[EnvVar],
) -> dict[str, Any]:
    """Build the spec of a client's pod.

    `preparing` are the variables that the client drops before it connects to a server.
    """
    division = division_of(spec)
    model = model_files(spec.model)
    endpoint = endpoint_files(spec.endpoint)
    data = data_files(spec.workloads)
    plan = mounted_at(
        PLAN_DIRECTORY,
        "plan",
        {"configMap": {"name": names.plan_name(owner.name, owner.uid)}},
    )
    mounted = [
        plan,
        child_objects.TMP,
        model,
        template_files(owner, spec.chat_template),
        *data,
        endpoint,
    ]
    gate = (
        [{"name": "gate", "containerPort": GATE_PORT}] if division.pods > 1 else []
    )
    # After import a process of vLLM's client takes about 1 GiB. The spec requests CPU where a pod
    # has several.
    requests = {"cpu": "500m", "memory": f"{division.processes}Gi"}
    container = {
        "name": names.CLIENT_CONTAINER,
        "image": image,
        "imagePullPolicy": pull_policy,
        "args": [
            f"--plan={PLAN_DIRECTORY}/{PLAN_FILE}",
            f"--port={RECORD_PORT}",
            *_together(owner, division),
            *_dropped(preparing),
        ],
        # What the model, the endpoint and the data need can't be replaced.
        "env": child_objects.environment(
            _HOME,
            as_listed([*preparing, *spec.client.env]),
            model.env,
            endpoint.env,
            *(each.env for each in data),
        ),
        "ports": [{"name": "records", "containerPort": RECORD_PORT}, *gate],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": "records"},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 30,
        },
        "resources": child_objects.resources(
            spec.client.resources, requests=requests
        ),
        "securityContext": {
            **child_objects.with_capabilities(defaults.client.capabilities),
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    subdomain = (
        {"subdomain": names.child_name(owner.name, owner.uid, names.ROLE_CLIENT)}
        if division.pods > 1
        else {}
    )
    user = None if defaults.user_from_namespace else CLIENT_USER
    pod = child_objects.pod_spec(container, mounted, spec.client.pod, user=user)
    return {**pod, "restartPolicy": "Never", **subdomain}


def _dropped(preparing: Sequence[EnvVar]) -> list[str]:
    """Build the argument by which the client drops the variables of its preparation."""
    if not preparing:
        return []
    return [f"--preparation-env={','.join(each.name for each in preparing)}"]


def _together(owner: Owner, division: Division) -> list[str]:
    """Build the arguments with which the processes of several shards find each other.

    A pod knows its own index.
    """
    if division.shards == 1:
        return []
    name = names.child_name(owner.name, owner.uid, names.ROLE_CLIENT)
    first = (
        []
        if division.pods == 1
        else [f"--gate={name}-0.{name}.{owner.namespace}.svc:{GATE_PORT}"]
    )
    return [
        f"--shards={division.shards}",
        f"--processes={division.processes}",
        *first,
    ]
