"""Where the model's files are inside a pod: the same place in server and client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchrun.api.model_source import Model

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
