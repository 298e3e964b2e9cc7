"""Where a dataset's file is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import Key, ObjectName, SpecModel
from benchrun.api.rules import exactly_one

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
FieldName = Annotated[str, Field(min_length=1, max_length=128)]
HttpUrl = Annotated[str, Field(max_length=1024, pattern=r"^https?://[^/?#@\s]+([/?][^#\s]*)?$")]


class ConfigMapFile(SpecModel):
    """A file in a ConfigMap of the run's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: Key = Field(description="Key that holds the file.")


class PvcFile(SpecModel):
    """A file on a claim of the run's namespace, mounted read-only."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^/].*$")] = Field(
        description="Path within the claim."
    )


class SecretName(SpecModel):
    """A Secret of the run's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class S3File(SpecModel):
    """An object in a store that speaks S3, downloaded by the client pod."""

    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*[a-z0-9]$")] = Field(
        description="Name of the bucket."
    )
    key: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^/].*$")] = Field(
        description="Key of the object."
    )
    endpoint: Annotated[str, Field(max_length=253, pattern=r"^https?://[^/?#@\s]+/?$")] | None = Field(
        default=None, description="URL of the store; AWS if left out."
    )
    region: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")] = Field(
        default="us-east-1", description="Region of the bucket; most stores of one's own don't mind."
    )
    credentials_secret_ref: SecretName | None = Field(
        default=None,
        description="Secret with the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN. "
        "Left out, the object is asked for without credentials.",
    )


class DatasetFile(SpecModel):
    """Exactly one of `configMap`, `pvc`, `url`, `s3` and `path`. At most 2 GiB."""

    rules = (exactly_one("config_map", "pvc", "url", "s3", "path"),)
    config_map: ConfigMapFile | None = Field(default=None, description="A file in a ConfigMap of the run's namespace.")
    pvc: PvcFile | None = Field(
        default=None, description="A file on a claim of the run's namespace, mounted read-only."
    )
    url: HttpUrl | None = Field(default=None, description="Downloaded by the client pod.")
    s3: S3File | None = Field(default=None, description="An object in a store that speaks S3.")
    path: Annotated[str, Field(min_length=2, max_length=512, pattern=r"^/.*$")] | None = Field(
        default=None, description="A file in the client's image, or on a volume of client.pod.volumes."
    )
