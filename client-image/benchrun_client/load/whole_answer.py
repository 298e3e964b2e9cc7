"""The reader of an answer that comes as a whole: an embedding, with the count of its tokens."""

import json
from typing import Any

from benchrun_client.load.event_stream import MOST_TOKENS, BrokenStreamError, shown

MAX_WHOLE_BYTES = 4 * 1024 * 1024
"""Largest answer: an embedding of 8,192 numbers takes some 200 kB as JSON."""


async def read_whole(response: Any) -> bytes:
    """Return the body of an answer; raise BrokenStreamError if it is too long."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_WHOLE_BYTES:
            # Closing ends it.
            response.close()
            raise BrokenStreamError(
                f"an answer of more than {MAX_WHOLE_BYTES} bytes"
            )
    return bytes(body)


def embedding_in(body: bytes) -> dict[str, Any]:
    """Return the answer in a body; raise BrokenStreamError if it has no embedding."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenStreamError(
            f"expected JSON with an embedding, got {shown(body)}"
        ) from error
    data = answer.get("data") if isinstance(answer, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    if not isinstance(first, dict) or not first.get("embedding"):
        raise BrokenStreamError(f"an answer without an embedding: {shown(body)}")
    found: dict[str, Any] = answer
    return found


def prompt_tokens_of(answer: dict[str, Any]) -> int | None:
    """Return the tokens of the prompt by the server's count; None if it tells no possible one."""
    usage = answer.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    is_possible = type(counted) is int and 0 < counted <= MOST_TOKENS
    return counted if is_possible else None
