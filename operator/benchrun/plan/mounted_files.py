"""Where the files of models and datasets are inside a pod, and what brings them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchrun_client.contract import DataFile, S3Object

from benchrun import names
from benchrun.api import ChatTemplate, DatasetFile, Model, Workload
from benchrun.plan.pods import Owner

DATA_DIRECTORY = "/data"
_CREDENTIALS = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """One file of a workload."""

    workload: str
    file: DatasetFile

    def in_plan(self) -> DataFile:
        """The file as the client's plan has it."""
        place, path = self.file.s3, self.file.path
        if place is not None:
            credentials = self._variable if place.credentials_secret_ref is not None else None
            s3 = S3Object(**place.model_dump(exclude={"credentials_secret_ref"}), credentials=credentials)
            return DataFile(s3=s3)
        if self.file.config_map is not None:
            path = f"{self._directory}/{self.file.config_map.key}"
        elif self.file.pvc is not None:
            path = f"{self._directory}/{self.file.pvc.path}"
        return DataFile(path=path, url=self.file.url)

    def volume(self) -> dict[str, Any] | None:
        """What is mounted, if anything. Optional where Kubernetes allows it: the client reports what is missing, a pod
        that can't start does not."""
        if self.file.config_map is not None:
            return {"name": self._volume_name, "configMap": {"name": self.file.config_map.name, "optional": True}}
        if self.file.pvc is not None:
            claim = {"claimName": self.file.pvc.claim_name, "readOnly": True}
            return {"name": self._volume_name, "persistentVolumeClaim": claim}
        return None

    def mount(self) -> dict[str, Any] | None:
        """Where it is mounted; None: nothing is."""
        if self.volume() is None:
            return None
        return {"name": self._volume_name, "mountPath": self._directory, "readOnly": True}

    def variables(self) -> tuple[dict[str, Any], ...]:
        """Credentials from their Secret."""
        if self.file.s3 is None or self.file.s3.credentials_secret_ref is None:
            return ()
        secret = self.file.s3.credentials_secret_ref.name
        keys = {name: {"name": secret, "key": f"AWS_{name}", "optional": True} for name in _CREDENTIALS}
        return tuple(
            {"name": f"{self._variable}_{name}", "valueFrom": {"secretKeyRef": key}} for name, key in keys.items()
        )

    @property
    def _volume_name(self) -> str:
        return f"data-{self.workload}"

    @property
    def _variable(self) -> str:
        """What the names of its variables begin with."""
        return f"BENCHRUN_S3_{self.workload.upper().replace('-', '_')}"

    @property
    def _directory(self) -> str:
        kind = f"configmap/{self.file.config_map.name}" if self.file.config_map is not None else "pvc"
        return f"{DATA_DIRECTORY}/{self.workload}/{kind}"


def placed_files(workloads: Sequence[Workload]) -> tuple[PlacedFile, ...]:
    """The file of each workload that reads one."""
    return tuple(PlacedFile(w.name, file) for w in workloads if (file := w.dataset.file) is not None)


MODEL_DIRECTORY = "/model"
"""The same place in server and client."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """How a pod gets at the model."""

    model: str  # What `vllm serve` is given: a hub id or a path.
    tokenizer: str
    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()


TEMPLATE_DIRECTORY, TEMPLATE_KEY = "/etc/benchrun-template", "chat-template.jinja"
TEMPLATE_FILE = f"{TEMPLATE_DIRECTORY}/{TEMPLATE_KEY}"
"""The chat template, at the same place in server and client."""


@dataclass(frozen=True, slots=True)
class TemplateFiles:
    """How a pod gets at the chat template: one text for server and client."""

    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, owner: Owner, template: ChatTemplate | None) -> TemplateFiles:
        """An inline one lies beside the plan. Optional: the client reports what is missing, a pod that can't start does not."""
        if template is None:
            return cls()
        given = template.config_map
        name = names.plan_name(owner.name, owner.uid) if given is None else given.name
        items = [{"key": TEMPLATE_KEY if given is None else given.key, "path": TEMPLATE_KEY}]
        volume = {"name": "chat-template", "configMap": {"name": name, "items": items, "optional": True}}
        return cls((volume,), ({"name": "chat-template", "mountPath": TEMPLATE_DIRECTORY, "readOnly": True},))


def model_files(model: Model) -> ModelFiles:
    """Volumes, mounts and variables for the model's source."""
    source = model.source
    if source.path is not None:
        return ModelFiles(model=source.path.path, tokenizer=model.tokenizer or source.path.path)
    if source.pvc is not None:
        volume = {"persistentVolumeClaim": {"claimName": source.pvc.claim_name, "readOnly": True}}
        return _mounted(model, volume, source.pvc.path)
    if source.image_volume is not None:
        return _mounted(model, {"image": {"reference": source.image_volume.reference}}, source.image_volume.path)
    files = ModelFiles(model=model.name, tokenizer=model.tokenizer or model.name)
    if source.hub is None or (token := source.hub.token_secret_ref) is None:
        return files
    reference = {"secretKeyRef": {"name": token.name, "key": token.key}}
    return replace(files, env=({"name": "HF_TOKEN", "valueFrom": reference},))


def served_name(model: Model) -> str:
    """The name requests carry."""
    return model.served_name or model.name


def _mounted(model: Model, volume: dict[str, Any], path: str | None) -> ModelFiles:
    directory = f"{MODEL_DIRECTORY}/{path}" if path else MODEL_DIRECTORY
    return ModelFiles(
        model=directory,
        tokenizer=model.tokenizer or directory,
        volumes=({"name": "model", **volume},),
        mounts=({"name": "model", "mountPath": MODEL_DIRECTORY, "readOnly": True},),
    )
