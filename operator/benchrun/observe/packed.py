"""Specs and statuses packed to bytes while memory holds them; parsed when they are read.

Parsed JSON takes up to 20 times the memory of its text.
"""

import json
import zlib
from typing import Any

from benchrun.observe import untrusted_json as raw

COMPRESSED_FROM_BYTES = 512
_LEVEL = 1  # compression level: saves most of what the best level saves, in a fifth of the time


def packed(value: raw.Object) -> bytes:
    """Return the value as JSON, compressed if it is long. Equal values give equal bytes."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    return (
        text if len(text) < COMPRESSED_FROM_BYTES else zlib.compress(text, _LEVEL)
    )


def unpacked(data: bytes) -> dict[str, Any]:
    """Parse the bytes that `packed` returned."""
    text = data if data.startswith(b"{") else zlib.decompress(data)
    found: dict[str, Any] = json.loads(text)
    return found
