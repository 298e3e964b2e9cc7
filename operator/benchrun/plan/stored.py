"""ConfigMaps that keep what was measured: a stage's record with the timeline up to it, and chunks within long stages."""

from __future__ import annotations

import base64
from typing import Any

from benchrun.api import names
from benchrun.plan.metadata import Manifest, Owner, metadata, stamped

RECORD_KEY = "record.json.gz"
TIMELINE_KEY = "timeline.json.gz"


def stage_config_map(owner: Owner, *, sequence: int, digest: str, record: bytes, timeline: bytes | None) -> Manifest:
    """A stage's record (gzip JSON, as the client sent it) and the timeline since the last chunk."""
    meta = metadata(owner, name=names.stage_name(owner.name, sequence), role=names.ROLE_STAGE)
    meta["labels"][names.LABEL_SEQUENCE] = str(sequence)
    meta["annotations"] = {names.ANNOTATION_DIGEST: digest}
    data = {RECORD_KEY: record} if timeline is None else {RECORD_KEY: record, TIMELINE_KEY: timeline}
    return _config_map(meta, data)


def timeline_config_map(owner: Owner, *, chunk: int, timeline: bytes) -> Manifest:
    """A piece of the timeline."""
    meta = metadata(owner, name=names.timeline_name(owner.name, chunk), role=names.ROLE_TIMELINE)
    return _config_map(meta, {TIMELINE_KEY: timeline})


def _config_map(meta: dict[str, Any], data: dict[str, bytes]) -> Manifest:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return stamped(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "binaryData": encoded}
    )
