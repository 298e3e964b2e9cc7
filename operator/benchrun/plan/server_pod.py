"""Build the pod whose main container is the engine.

Its variants run the engine without an API server, over several nodes, or with a profiler.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from benchrun_client.contract import READER_PORT
from benchrun_client.engines import Engine, ServedFiles

from benchrun import names
from benchrun.api import BenchmarkRunSpec, Resources, Started
from benchrun.plan import child_objects
from benchrun.plan.child_objects import Owner
from benchrun.plan.mounted_files import (
    TEMPLATE_FILE,
    compile_cache_files,
    model_path,
    served_model_files,
    served_name,
    template_files,
)

TERMINATION_GRACE_SECONDS = 10
CODE_DIRECTORY = "/opt/benchrun-client"
"""Folder with the client's code for an engine that runs without an API server."""
# Folder of the client's code in the client's image.
IMAGE_CODE_DIRECTORY = "/opt/benchrun"


def served_files(spec: BenchmarkRunSpec) -> ServedFiles:
    """Return how server pods get the model and the chat template.

    An engine without an API server gets the chat template with each load instead.
    """
    model = spec.model
    template = (
        TEMPLATE_FILE
        if spec.chat_template is not None and spec.offline is None
        else None
    )
    return ServedFiles(
        model_path(model),
        served_name(model),
        model.revision,
        model.tokenizer,
        template,
    )


def started_command(spec: BenchmarkRunSpec) -> list[str]:
    """Return the command that replaces the entry point of a server's image.

    It is empty if the entry point starts the server.
    """
    own = spec.server.command if spec.server is not None else ()
    engine = spec.engine
    return engine.filled_in(own, served_files(spec)) if own else [*engine.command]


def engine_pod(
    owner: Owner,
    spec: BenchmarkRunSpec,
    server: Started,
    *,
    args: list[str],
    resources: Resources,
    own_env: Sequence[dict[str, Any]] = (),
    capabilities: Sequence[str] = (),
    user_from_namespace: bool = False,
) -> dict[str, Any]:
    """Build the spec of the engine's pod.

    `own_env` overrides the user's variables; `resources` are those of the server or of its role.
    `capabilities` and `user_from_namespace` are the platform's.
    """
    engine = spec.engine
    model = served_model_files(spec.model)
    compiled = compile_cache_files(server, args, resources)
    command = started_command(spec)
    template = template_files(
        owner, spec.chat_template if spec.offline is None else None
    )
    memory = {"emptyDir": {"medium": "Memory", "sizeLimit": server.shared_memory}}
    shared = child_objects.mounted_at("/dev/shm", "shm", memory, read_only=False)
    container = {
        "name": names.SERVER_CONTAINER,
        "image": server.image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": command} if command else {}),
        "args": args,
        "env": child_objects.environment(
            engine.environment,
            model.env,
            compiled.env,
            child_objects.as_listed(server.env),
            own_env,
        ),
        # No liveness or start-up probe: a restart voids the measurement, and how long loading may
        # take is the run's own deadline.
        **child_objects.http_port(engine.port, health_path=engine.health_path),
        "resources": child_objects.resources(resources),
        "securityContext": child_objects.with_capabilities(capabilities),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    mounted = (shared, child_objects.TMP, model, compiled, template)
    grace = TERMINATION_GRACE_SECONDS
    user = None if user_from_namespace else engine.user
    return child_objects.pod_spec(
        container, mounted, server.pod, user=user, grace_seconds=grace
    )


_COPYING = {"cpu": "100m", "memory": "256Mi"}


def without_api_server(
    pod: dict[str, Any], *, client_image: str, pull_policy: str
) -> dict[str, Any]:
    """Return the pod, changed to run the engine without its API server.

    The image is the user's and has the engine. The few files that it lacks are copied from the
    client's image.
    """
    code = {"name": "client-code", "mountPath": CODE_DIRECTORY}
    copy = {
        "name": "copy-client-code",
        "image": client_image,
        "imagePullPolicy": pull_policy,
        "command": ["cp", "-r", f"{IMAGE_CODE_DIRECTORY}/.", CODE_DIRECTORY],
        # Quotas may ask for each of them, and a LimitRange for limits near their requests.
        "resources": {"requests": _COPYING, "limits": _COPYING},
        "securityContext": {
            **child_objects.CONTAINER_SECURITY,
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [code],
    }
    engine = pod["containers"][0]
    engine["command"] = ["python3", f"{CODE_DIRECTORY}/offline_engine.py"]
    engine["volumeMounts"] = [*engine["volumeMounts"], {**code, "readOnly": True}]
    volumes = [
        *pod["volumes"],
        {"name": "client-code", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    return {**pod, "initContainers": [copy], "volumes": volumes}


def worker_pod(engine: Engine, leader: dict[str, Any]) -> dict[str, Any]:
    """Build the spec of a worker's pod from the leader's, for a server over several nodes.

    A worker has no API server, so it has no probe.
    """
    assert engine.nodes is not None, "a rule of the spec"
    server, *others = leader["containers"]
    headless = {
        name: value
        for name, value in server.items()
        if name not in ("ports", "readinessProbe")
    }
    args = [*server["args"], *engine.nodes.worker_args]
    return {**leader, "containers": [{**headless, "args": args}, *others]}


READER_CONTAINER = "trace-reader"
TRACE_DIRECTORY = "/profile"
# Every worker writes one, packed; a pod that exceeds it is evicted, after the last stage.
TRACE_SIZE_LIMIT = "4Gi"
READER_RESOURCES = {"cpu": "250m", "memory": "1Gi"}
"""Limits and requests of the trace reader. They are equal, so that a server with whole cores of its
own keeps them: the pod stays Guaranteed."""


@cache
def reader_source(file: str) -> str:
    """Return the source code of an engine's trace reader, for the Python of the server's image.

    It does not run in the client's image, because the GPU would be held while that is pulled.
    """
    return (files("benchrun_client.engines") / file).read_text(encoding="utf-8")


def with_profiler(
    owner: Owner, spec: BenchmarkRunSpec, pod: dict[str, Any]
) -> dict[str, Any]:
    """Return the pod of a server; if the spec asks for a profile, with what profiling needs."""
    profile = spec.measurement.profile
    server = spec.server
    profiler = spec.engine.profiler
    if profile is None or server is None or profiler is None:
        return pod
    directory = f"{TRACE_DIRECTORY}/{names.child_name(owner.name, owner.uid, names.ROLE_SERVER)}"
    engine, *others = pod["containers"]
    args, variables = profiler.enabled_by(server.image, directory)
    mount = {"name": "profile", "mountPath": TRACE_DIRECTORY}
    engine = {
        **engine,
        "args": [*engine["args"], *args],
        "env": [
            *engine["env"],
            *({"name": name, "value": value} for name, value in variables.items()),
        ],
        "volumeMounts": [*engine["volumeMounts"], mount],
    }
    reader = {
        "name": READER_CONTAINER,
        "image": server.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "python3",
            "-c",
            reader_source(profiler.reader),
            directory,
            str(READER_PORT),
        ],
        "resources": {"requests": READER_RESOURCES, "limits": READER_RESOURCES},
        "securityContext": {
            **child_objects.CONTAINER_SECURITY,
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{**mount, "readOnly": True}],
    }
    kept: dict[str, Any] = {"emptyDir": {"sizeLimit": TRACE_SIZE_LIMIT}}
    if profile.claim_name is not None:
        kept = {"persistentVolumeClaim": {"claimName": profile.claim_name}}
    return {
        **pod,
        "containers": [engine, reader, *others],
        "volumes": [*pod["volumes"], {"name": "profile", **kept}],
    }
