"""Build ConfigMaps that keep what was measured and found.

Each has a stage's record with the timeline up to it, a piece of the timeline within a long stage,
or the result document of the run.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from benchrun_client.contract import Sealed, StageRecord, open_record

from benchrun import names
from benchrun.plan.child_objects import Manifest, Owner, metadata

RECORD_KEY = "record.json.gz"
TIMELINE_KEY = "timeline.json.gz"
RESULT_KEY = "result.json.gz"


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A packed piece of the timeline, as it is stored in a ConfigMap."""

    data: bytes
    through: float  # Unix time in seconds of its last sample.


@dataclass(frozen=True, slots=True)
class PackedResult:
    """The result document of a run, as the judge packed it. The operator never opens it."""

    data: bytes
    digest: str  # SHA-256 of `data`

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Build a part from the packed bytes."""
        return cls(data, hashlib.sha256(data).hexdigest())


def result_config_map(owner: Owner, result: PackedResult) -> Manifest:
    """Build the ConfigMap of a run's result document."""
    name = names.result_name(owner.name, owner.uid, result.digest)
    meta = metadata(owner, name=name, role=names.ROLE_RESULT)
    meta["annotations"] = {names.ANNOTATION_RESULT_DIGEST: result.digest}
    return _config_map(meta, {RESULT_KEY: result.data}, None)


def stage_config_map(
    owner: Owner, record: Sealed, *, timeline: TimelinePart | None
) -> Manifest:
    """Build the ConfigMap of a stage's record and the timeline since the last piece.

    The record's envelope is in an annotation, as JSON.
    """
    envelope = record.envelope
    sequence = envelope.sequence
    meta = metadata(
        owner,
        name=names.stage_name(owner.name, owner.uid, sequence),
        role=names.ROLE_STAGE,
    )
    meta["labels"][names.LABEL_SEQUENCE] = str(sequence)
    meta["annotations"] = {
        names.ANNOTATION_ENVELOPE: envelope.model_dump_json(exclude_none=True)
    }
    return _config_map(meta, {RECORD_KEY: record.body}, timeline)


def timeline_config_map(
    owner: Owner, *, chunk: int, timeline: TimelinePart
) -> Manifest:
    """Build the ConfigMap of a piece of the timeline."""
    meta = metadata(
        owner,
        name=names.timeline_name(owner.name, owner.uid, chunk),
        role=names.ROLE_TIMELINE,
    )
    return _config_map(meta, {}, timeline)


def stored_part(body: Mapping[str, object], key: str) -> bytes | None:
    """Return the decoded bytes under a key of a ConfigMap; None if the key is missing.

    Raise ValueError if the bytes can't be decoded.
    """
    held = body.get("binaryData")
    text = held.get(key) if isinstance(held, Mapping) else None
    return base64.b64decode(text) if isinstance(text, str) else None


def stored_record(
    body: Mapping[str, object], *, run_uid: str, sequence: int | None
) -> StageRecord:
    """Return the record that a ConfigMap holds.

    Raise ValueError if it has none, or one of another run or stage.
    """
    if (packed := stored_part(body, RECORD_KEY)) is None:
        raise ValueError("the record is missing")
    record = open_record(packed)
    if (record.run_uid, record.sequence) != (run_uid, sequence):
        raise ValueError(
            "the record is of another run or stage: "
            f"{record.sequence} of run {record.run_uid}"
        )
    return record


def stored_result(body: Mapping[str, object], *, digest: str) -> bytes:
    """Return the packed result document that a ConfigMap holds.

    Raise ValueError if it has none, or one with another SHA-256.
    """
    if (packed := stored_part(body, RESULT_KEY)) is None:
        raise ValueError("the result document is missing")
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ValueError(
            "the SHA-256 of the result document is not the one in "
            "status.resultDocument"
        )
    return packed


def _config_map(
    meta: dict[str, Any], data: dict[str, bytes], timeline: TimelinePart | None
) -> Manifest:
    """Build an immutable ConfigMap of this binary data.

    An annotation holds its size: these ConfigMaps are listed by their metadata alone.
    """
    annotations = meta.setdefault("annotations", {})
    if timeline is not None:
        data = data | {TIMELINE_KEY: timeline.data}
        annotations[names.ANNOTATION_THROUGH] = repr(timeline.through)
    annotations[names.ANNOTATION_BYTES] = str(
        sum(len(value) for value in data.values())
    )
    held = {key: base64.b64encode(value).decode() for key, value in data.items()}
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    return {**about, "immutable": True, "binaryData": held}
