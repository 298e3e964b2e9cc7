"""The key that the tokens of all runs are made from (`benchrun.plan.channel`).

The operator makes it itself and keeps it in a Secret of its own namespace: tools that render the chart anew each time could not
keep a random value. It may read that one Secret by name and create it, and no other.
"""

from __future__ import annotations

import base64
import secrets
from typing import Any

from benchrun.effects.connection import Connection
from benchrun.effects.errors import Exists, Invalid, NotFound
from benchrun.effects.resources import Resource

CHANNEL_KEY = "benchrun-channel-key"
"""Name of the Secret."""
_ENTRY = "key"
_BYTES = 32
# Not among RESOURCES: nothing else has any business with Secrets.
_SECRET = Resource("", "v1", "secrets")


async def channel_key(connection: Connection, *, namespace: str) -> bytes:
    """The operator's key, made if there is none yet. Raises ClusterError: without it no client can be talked to."""
    try:
        return _key_in(await connection.json("GET", _SECRET.path(namespace, CHANNEL_KEY)))
    except NotFound:
        pass
    try:
        return _key_in(await connection.json("POST", _SECRET.path(namespace), body=_manifest(namespace)))
    except Exists:
        # Another replica was faster.
        return _key_in(await connection.json("GET", _SECRET.path(namespace, CHANNEL_KEY)))


def _manifest(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": CHANNEL_KEY,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "benchrun-operator"},
        },
        "type": "Opaque",
        "immutable": True,
        "data": {_ENTRY: base64.b64encode(secrets.token_bytes(_BYTES)).decode()},
    }


def _key_in(body: dict[str, Any]) -> bytes:
    """Raises Invalid, which does not say what was found."""
    try:
        key = base64.b64decode(body["data"][_ENTRY], validate=True)
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) < _BYTES:
        # Without what was found as a cause: a traceback is logged.
        raise Invalid(f"Secret {CHANNEL_KEY} holds no key of {_BYTES} bytes at {_ENTRY!r}; delete it to have one made")
    return key
