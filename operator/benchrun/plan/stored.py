"""ConfigMaps that keep what was measured: a stage's record with the timeline up to it, chunks within long stages, and what
the server's log told."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchrun_client.contract import StageRecord, open_record

from benchrun.api import names
from benchrun.plan.metadata import Manifest, Owner, metadata, stamped

RECORD_KEY = "record.json.gz"
TIMELINE_KEY = "timeline.json.gz"
COMPILATIONS_KEY = "compilations.json"


def stage_config_map(
    owner: Owner, *, sequence: int, digest: str, record: bytes, timeline: bytes | None, ends_search: str | None = None
) -> Manifest:
    """A stage's record (gzip JSON, as the client sent it) and the timeline since the last chunk. `ends_search`: the workload
    whose search ended with it, told outside: by that an operator knows that nothing more comes."""
    meta = metadata(owner, name=names.stage_name(owner.name, sequence), role=names.ROLE_STAGE)
    meta["labels"][names.LABEL_SEQUENCE] = str(sequence)
    meta["annotations"] = {names.ANNOTATION_DIGEST: digest}
    if ends_search is not None:
        meta["annotations"][names.ANNOTATION_ENDS_SEARCH] = ends_search
    data = {RECORD_KEY: record} if timeline is None else {RECORD_KEY: record, TIMELINE_KEY: timeline}
    return _config_map(meta, data)


def timeline_config_map(owner: Owner, *, chunk: int, timeline: bytes) -> Manifest:
    """A piece of the timeline."""
    meta = metadata(owner, name=names.timeline_name(owner.name, chunk), role=names.ROLE_TIMELINE)
    return _config_map(meta, {TIMELINE_KEY: timeline})


def log_config_map(owner: Owner, *, compilations: Sequence[float]) -> Manifest:
    """The instants at which the server's log tells of compiling, in Unix seconds; none at all is worth keeping, too. A part
    of the timeline: it goes with it."""
    meta = metadata(owner, name=names.log_name(owner.name), role=names.ROLE_TIMELINE)
    return _config_map(meta, {COMPILATIONS_KEY: json.dumps(list(compilations), separators=(",", ":")).encode()})


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


def stored_compilations(body: Mapping[str, object]) -> tuple[float, ...] | None:
    """What a ConfigMap holds of the server's log; None: nothing. Raises ValueError where it is something else."""
    held = stored_part(body, COMPILATIONS_KEY)
    if held is None:
        return None
    instants = json.loads(held)
    if not isinstance(instants, list) or not all(isinstance(at, int | float) for at in instants):
        raise ValueError(f"{COMPILATIONS_KEY} is not a list of instants")
    return tuple(float(at) for at in instants)


def _config_map(meta: dict[str, Any], data: dict[str, bytes]) -> Manifest:
    """Its size is told beside it: these ConfigMaps are listed by their metadata alone."""
    size = sum(len(value) for value in data.values())
    meta["annotations"] = {**meta.get("annotations", {}), names.ANNOTATION_BYTES: str(size)}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return stamped(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "binaryData": encoded}
    )
