"""ConfigMaps that keep what was measured: a stage's record with the timeline up to it, and chunks within long stages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from benchrun_client.contract import StageRecord, open_record

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


def stored_part(body: Mapping[str, object], key: str) -> bytes | None:
    """What a ConfigMap holds under the key, if anything. Raises ValueError where it can't be read."""
    held = body.get("binaryData")
    text = held.get(key) if isinstance(held, Mapping) else None
    return base64.b64decode(text) if isinstance(text, str) else None


def stored_record(packed: bytes, *, run_uid: str, sequence: int | None) -> StageRecord:
    """The record in its ConfigMap, if it is the one that the ConfigMap says. Raises ValueError."""
    record = open_record(packed)
    if (record.run_uid, record.sequence) != (run_uid, sequence):
        raise ValueError(f"holds record {record.sequence} of run {record.run_uid}")
    return record


def _config_map(meta: dict[str, Any], data: dict[str, bytes]) -> Manifest:
    """Its size is told beside it: these ConfigMaps are listed by their metadata alone."""
    size = sum(len(value) for value in data.values())
    meta["annotations"] = {**meta.get("annotations", {}), names.ANNOTATION_BYTES: str(size)}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return stamped(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "binaryData": encoded}
    )
