"""Define where files of models, datasets, chat templates and certificates are in a pod.

The volumes and variables that provide them are defined here, too.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchrun_client.contract import DataFile, ModelCache, S3Object
from benchrun_client.engines import ENGINES

from benchrun import names
from benchrun.api import (
    BenchmarkRunSpec,
    ChatTemplate,
    ConfigMapKeyRef,
    DatasetFile,
    Endpoint,
    HubSource,
    Model,
    Resources,
    SecretRef,
    Started,
    Workload,
)
from benchrun.plan.child_objects import Mounted, Owner, as_listed, mounted_at

DATA_DIRECTORY = "/data"
# Mount path of the model, the same in server and client.
MODEL_DIRECTORY = "/model"
# Mount path of the claim that keeps models, the same in server and client.
CACHE_DIRECTORY = "/model-cache"
TEMPLATE_DIRECTORY = "/etc/benchrun-template"
TEMPLATE_KEY = "chat-template.jinja"
# The chat template, at the same place in server and client.
TEMPLATE_FILE = f"{TEMPLATE_DIRECTORY}/{TEMPLATE_KEY}"
CA_DIRECTORY = "/etc/benchrun-ca"
_CA_KEY = "ca.crt"
CA_FILE = f"{CA_DIRECTORY}/{_CA_KEY}"
# The client's certificate and its key.
CERTIFICATE_DIRECTORY = "/etc/benchrun-client-certificate"
_CREDENTIALS = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")


def _from_secret(variable: str, **key: Any) -> dict[str, Any]:
    return {"name": variable, "valueFrom": {"secretKeyRef": key}}


def _claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name, "readOnly": True}}


def _data_directory(workload: str, file: DatasetFile) -> str:
    kind = (
        f"configmap/{file.config_map.name}"
        if file.config_map is not None
        else "pvc"
    )
    return f"{DATA_DIRECTORY}/{workload}/{kind}"


def _s3_variables(workload: str) -> str:
    """Return the prefix of the environment variables with a workload's S3 credentials."""
    return f"BENCHRUN_S3_{workload.upper().replace('-', '_')}"


def data_in_plan(workload: str, file: DatasetFile) -> DataFile:
    """Return the file of a workload in the form that the client's plan has."""
    if file.s3 is not None:
        credentials = (
            _s3_variables(workload)
            if file.s3.credentials_secret_ref is not None
            else None
        )
        return DataFile(
            s3=S3Object(
                **file.s3.model_dump(exclude={"credentials_secret_ref"}),
                credentials=credentials,
            )
        )
    mounted = (
        file.config_map.key
        if file.config_map is not None
        else file.pvc.path
        if file.pvc is not None
        else None
    )
    return DataFile(
        path=f"{_data_directory(workload, file)}/{mounted}"
        if mounted
        else file.path,
        url=file.url,
    )


def data_files(workloads: Sequence[Workload]) -> tuple[Mounted, ...]:
    """Return volumes and variables with the file of each workload that reads one."""
    return tuple(
        _data_of(each.name, file)
        for each in workloads
        if (file := each.dataset.file) is not None
    )


def _data_of(workload: str, file: DatasetFile) -> Mounted:
    """Return volumes and variables that give the client the file of one workload.

    The volume is optional if Kubernetes allows that: then the client starts and reports what is
    missing, which a pod that can't start does not do.
    """
    name = f"data-{workload}"
    directory = _data_directory(workload, file)
    if file.config_map is not None:
        return mounted_at(
            directory,
            name,
            {"configMap": {"name": file.config_map.name, "optional": True}},
        )
    if file.pvc is not None:
        return mounted_at(directory, name, _claim(file.pvc.claim_name))
    if file.s3 is None or file.s3.credentials_secret_ref is None:
        return Mounted()
    secret = file.s3.credentials_secret_ref.name
    prefix = _s3_variables(workload)
    keys = {f"{prefix}_{name}": f"AWS_{name}" for name in _CREDENTIALS}
    return Mounted(
        env=tuple(
            _from_secret(v, name=secret, key=key, optional=True)
            for v, key in keys.items()
        )
    )


def template_files(owner: Owner, template: ChatTemplate | None) -> Mounted:
    """Return the volume with the chat template: the same text for server and client.

    An inline template is in the ConfigMap of the plan. The volume is optional, as for datasets.
    """
    if template is None:
        return Mounted()
    given = template.config_map
    name = names.plan_name(owner.name, owner.uid) if given is None else given.name
    items = [
        {"key": TEMPLATE_KEY if given is None else given.key, "path": TEMPLATE_KEY}
    ]
    volume = {"configMap": {"name": name, "items": items, "optional": True}}
    return mounted_at(TEMPLATE_DIRECTORY, "chat-template", volume)


def endpoint_files(endpoint: Endpoint | None) -> Mounted:
    """Return what the client needs for an endpoint: key, secret headers, certificates.

    OPENAI_API_KEY is the variable that vLLM's own client reads.
    """
    if endpoint is None:
        return Mounted()
    key = endpoint.api_key_secret_ref
    secret = {
        **({"OPENAI_API_KEY": key} if key is not None else {}),
        **{
            header_variable(each.name): each.secret_key_ref
            for each in endpoint.headers
            if each.secret_key_ref is not None
        },
    }
    files = [
        *_ca_files(endpoint.ca_config_map_ref),
        *_certificate_files(endpoint.client_certificate_secret_ref),
    ]
    return Mounted(
        volumes=tuple(volume for each in files for volume in each.volumes),
        mounts=tuple(mount for each in files for mount in each.mounts),
        env=tuple(
            _from_secret(variable, name=ref.name, key=ref.key)
            for variable, ref in secret.items()
        ),
    )


def _ca_files(ref: ConfigMapKeyRef | None) -> Iterator[Mounted]:
    if ref is not None:
        items = [{"key": ref.key, "path": _CA_KEY}]
        volume = {"configMap": {"name": ref.name, "items": items}}
        yield mounted_at(CA_DIRECTORY, "ca", volume)


def _certificate_files(ref: SecretRef | None) -> Iterator[Mounted]:
    if ref is not None:
        items = [{"key": key, "path": key} for key in ("tls.crt", "tls.key")]
        volume = {"secret": {"secretName": ref.name, "items": items}}
        yield mounted_at(CERTIFICATE_DIRECTORY, "client-certificate", volume)


def header_variable(name: str) -> str:
    """Return the variable of the client's pod with the value of a secret header."""
    return f"BENCHRUN_HEADER_{name.upper().replace('-', '_')}"


def model_path(model: Model) -> str:
    """Return the model argument of `vllm serve`: a hub id or a path."""
    if model.source.path is not None:
        return model.source.path.path
    if (volume := model.source.pvc or model.source.image_volume) is not None:
        return (
            f"{MODEL_DIRECTORY}/{volume.path}" if volume.path else MODEL_DIRECTORY
        )
    return model.name


def cache_of(model: Model) -> ModelCache | None:
    """Return the claim that keeps the model, as the client's plan has it; None if there is none."""
    hub = model.source.hub
    if hub is None or not hub.cache_claim:
        return None
    return ModelCache(
        claim=hub.cache_claim,
        directory=CACHE_DIRECTORY,
        repository=model.name,
        revision=model.revision,
    )


def at_commit(spec: BenchmarkRunSpec, commit: str | None) -> BenchmarkRunSpec:
    """Return the spec with the commit as the model's revision; None leaves it unchanged."""
    if commit is None:
        return spec
    model = spec.model.model_copy(update={"revision": commit})
    return spec.model_copy(update={"model": model})


def served_model_files(model: Model) -> Mounted:
    """Return the volumes and variables that give a server its model.

    From a claim that the client has filled, a server only gets files, and no variables of the
    hub.

    The claim is read-only for the container alone: a volume that is read-only as a whole may not be
    attached to a node where the client writes to it.
    """
    cache = cache_of(model)
    if cache is None:
        return model_files(model)
    offline = {"HF_HUB_CACHE": f"{CACHE_DIRECTORY}/hub", "HF_HUB_OFFLINE": "1"}
    env = tuple({"name": name, "value": value} for name, value in offline.items())
    return replace(_cache_mount(cache, read_only=True), env=env)


def _cache_mount(cache: ModelCache, *, read_only: bool) -> Mounted:
    volume = {"persistentVolumeClaim": {"claimName": cache.claim}}
    return mounted_at(CACHE_DIRECTORY, "model-cache", volume, read_only=read_only)


def model_files(model: Model) -> Mounted:
    """Return what a pod needs to read the model: a volume, or the variables of the hub."""
    source = model.source
    if source.pvc is not None:
        return mounted_at(MODEL_DIRECTORY, "model", _claim(source.pvc.claim_name))
    if source.image_volume is not None:
        return mounted_at(
            MODEL_DIRECTORY,
            "model",
            {"image": {"reference": source.image_volume.reference}},
        )
    if source.hub is None:
        return Mounted()
    cache = cache_of(model)
    mounted = Mounted() if cache is None else _cache_mount(cache, read_only=False)
    return replace(mounted, env=_of_hub(source.hub))


def _of_hub(hub: HubSource) -> tuple[dict[str, Any], ...]:
    token = hub.token_secret_ref
    return (
        *(
            (_from_secret("HF_TOKEN", name=token.name, key=token.key),)
            if token is not None
            else ()
        ),
        *(
            ({"name": "HF_ENDPOINT", "value": hub.endpoint},)
            if hub.endpoint is not None
            else ()
        ),
    )


def compile_cache_files(
    server: Started, args: Sequence[str], resources: Resources
) -> Mounted:
    """Return what lets an engine keep what it compiles on a claim; nothing without one.

    Servers share a folder only if image, engine, flags, variables, resources and selected nodes are
    the same: what one compiles then fits the other.
    """
    caches = ENGINES[server.engine].compile_caches
    if not server.compile_cache_claim or not caches:
        return Mounted()
    same = {
        "engine": server.engine,
        "image": server.image,
        "args": list(args),
        "env": as_listed(server.env),
        "limits": resources.limits,
        "nodes": server.pod.node_selector,
    }
    text = json.dumps(same, sort_keys=True, default=str)
    folder = hashlib.sha256(text.encode()).hexdigest()[:16]
    volume = {"persistentVolumeClaim": {"claimName": server.compile_cache_claim}}
    mounted = mounted_at(
        names.COMPILED_DIRECTORY, "compile-cache", volume, read_only=False
    )
    env = tuple(
        {"name": name, "value": f"{names.COMPILED_DIRECTORY}/{folder}/{part}"}
        for name, part in caches.items()
    )
    return replace(mounted, env=env)


def served_name(model: Model) -> str:
    """Return the model name that requests carry."""
    return model.served_name or model.name
