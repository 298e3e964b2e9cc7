"""Metadata of every child: name, labels, owner, and the hash that tells whether it was applied."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from benchrun.api import names
from benchrun.api.base import API_VERSION, KIND

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """The run a child belongs to."""

    namespace: str
    name: str
    uid: str


def held(metadata: Manifest, hold_seconds: int) -> Manifest:
    """Metadata of what holds a GPU, with how long it may."""
    return {**metadata, "annotations": {names.ANNOTATION_HOLD: str(hold_seconds)}}


def metadata(owner: Owner, *, name: str, role: str) -> Manifest:
    """Metadata of a child. The controller reference lets the garbage collector clean up, even while the operator is down."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": names.labels(run=owner.name, uid=owner.uid, role=role),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with the hash of itself as an annotation."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    meta = manifest["metadata"]
    annotations = {
        **meta.get("annotations", {}),
        names.ANNOTATION_APPLIED: hashlib.sha256(text.encode()).hexdigest()[:16],
    }
    return {**manifest, "metadata": {**meta, "annotations": annotations}}
