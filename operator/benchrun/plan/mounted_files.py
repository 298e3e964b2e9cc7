"""Where the files of models and datasets are inside a pod, and what brings them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchrun_client.contract import DataFile, S3Object

from benchrun.api import DatasetFile, Model, Workload

# ---- dataset files ----------------------------------------------------------------------------------------------------
# Where the files of datasets are in the client's pod, and what brings them there.

DATA_DIRECTORY = "/data"
_CREDENTIALS = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """One file of a workload."""

    workload: str
    file: DatasetFile

    def in_plan(self) -> DataFile:
        """The file in the client's words."""
        if self.file.s3 is not None:
            place = self.file.s3
            return DataFile(
                s3=S3Object(
                    **place.model_dump(exclude={"credentials_secret_ref"}),
                    credentials=self._variable if place.credentials_secret_ref is not None else None,
                )
            )
        return DataFile(path=self._path(), url=self.file.url)

    def volume(self) -> dict[str, Any] | None:
        """What is mounted; None: nothing is. Optional where Kubernetes allows it: the client says what is missing, a pod that
        can't start does not."""
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
        return tuple(
            {
                "name": f"{self._variable}_{name}",
                "valueFrom": {"secretKeyRef": {"name": secret, "key": f"AWS_{name}", "optional": True}},
            }
            for name in _CREDENTIALS
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

    def _path(self) -> str | None:
        if self.file.config_map is not None:
            return f"{self._directory}/{self.file.config_map.key}"
        if self.file.pvc is not None:
            return f"{self._directory}/{self.file.pvc.path}"
        return self.file.path


def placed_files(workloads: Sequence[Workload]) -> tuple[PlacedFile, ...]:
    """The file of each workload that reads one."""
    return tuple(PlacedFile(w.name, file) for w in workloads if (file := w.dataset.file) is not None)


# ---- model files ------------------------------------------------------------------------------------------------------
# Where the model's files are inside a pod: the same place in server and client.

MODEL_DIRECTORY = "/model"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """How a pod gets at the model."""

    model: str
    """What `vllm serve` is given: a hub id or a path."""
    tokenizer: str
    """What the client loads the tokenizer from."""
    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()


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
    token = source.hub.token_secret_ref if source.hub is not None else None
    env: tuple[dict[str, Any], ...] = ()
    if token is not None:
        reference = {"secretKeyRef": {"name": token.name, "key": token.key}}
        env = ({"name": "HF_TOKEN", "valueFrom": reference},)
    return ModelFiles(model=model.name, tokenizer=model.tokenizer or model.name, env=env)


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
