"""`spec.model`: which model, and where its files come from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import Key, ObjectName, Rule, SpecModel, Text, exactly_one


class SecretKeyRef(SpecModel):
    """A key of a Secret in the run's namespace, which pods read and the operator never does."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: Key = Field("token", description="Key within the Secret.")


class HubSource(SpecModel):
    """Server and client each download the files."""

    token_secret_ref: SecretKeyRef | None = Field(None, description="Hub token for gated models; becomes HF_TOKEN.")


class PvcSource(SpecModel):
    """The claim is mounted read-only into server and client."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: Annotated[str, Field(max_length=512, pattern=r"^[^/].*$")] | None = Field(
        None, description="Directory of the model within the claim; its root if left out."
    )


class ImageVolumeSource(SpecModel):
    """The artifact is mounted read-only into server and client; needs Kubernetes 1.35."""

    reference: Text = Field(description="Image reference of the artifact.")
    path: Annotated[str, Field(max_length=512, pattern=r"^[^/].*$")] | None = Field(
        None, description="Directory of the model within the artifact; its root if left out."
    )


class PathSource(SpecModel):
    """It is at the same path in server and client."""

    path: Annotated[str, Field(max_length=512, pattern=r"^/.*$")] = Field(description="Path of the model directory.")


class ModelSource(SpecModel):
    """Exactly one of `hub`, `pvc`, `imageVolume` and `path`."""

    rules = (exactly_one("hub", "pvc", "image_volume", "path"),)
    hub: HubSource | None = Field(None, description="From the Hugging Face hub.")
    pvc: PvcSource | None = Field(None, description="From a PersistentVolumeClaim.")
    image_volume: ImageVolumeSource | None = Field(None, description="From an OCI artifact.")
    path: PathSource | None = Field(None, description="From a directory that the images bring along.")


class Model(SpecModel):
    """The model under test."""

    rules = (Rule(cel="!has(self.revision) || has(self.source.hub)", message="revision needs source hub; remove it"),)
    name: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="Model name, for example Qwen/Qwen3-4B. With source hub it is the hub's id."
    )
    revision: Text | None = Field(None, description="Revision on the hub: a branch, tag or commit.")
    served_name: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        None, description="Name the server answers to; `name` if left out."
    )
    tokenizer: Text | None = Field(None, description="Hub id or path of the tokenizer; the model's own if left out.")
    source: ModelSource = Field(
        default_factory=lambda: ModelSource(hub=HubSource()), description="Where the files come from."
    )
