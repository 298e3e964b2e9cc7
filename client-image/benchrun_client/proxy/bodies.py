"""What a prefill server is asked, and what the decode server is told of its answer.

The fields are those of vLLM's connectors that hand blocks over by request (NIXL and its kin): the prefill server learns that
somebody else will decode, answers where its blocks are, and that answer goes into the request to the decode server. Connectors
that find blocks by the prompt itself say nothing, and the decode server gets the client's own bytes.
"""

from __future__ import annotations

import json
from typing import Any

TRANSFER = "kv_transfer_params"
_TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_OF_THE_ANSWER = ("stream_options", "min_tokens", "max_tokens", "max_completion_tokens")
"""About an answer's length and form, which is one token in one piece."""


class NotAnObject(ValueError):
    """The body is no JSON object."""


def read_object(body: bytes) -> dict[str, Any]:
    """The client's request.

    Raises:
        NotAnObject: it is something else.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotAnObject("the body is not JSON") from error
    if not isinstance(asked, dict):
        raise NotAnObject("the body is not a JSON object")
    return asked


def prefill_body(asked: dict[str, Any]) -> bytes:
    """The same request for one token, not streamed, whose blocks somebody else is going to fetch."""
    most = "max_completion_tokens" if asked.get("max_completion_tokens") is not None else "max_tokens"
    kept = {name: value for name, value in asked.items() if name not in _OF_THE_ANSWER}
    return json.dumps(kept | {most: 1, "stream": False, TRANSFER: _TO_PREFILL}).encode()


def transfer_of(answer: bytes) -> dict[str, Any] | None:
    """What the prefill server says about its blocks, if it says anything."""
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    transfer = told.get(TRANSFER) if isinstance(told, dict) else None
    return transfer if isinstance(transfer, dict) else None


def decode_body(body: bytes, asked: dict[str, Any], transfer: dict[str, Any] | None) -> bytes:
    """The client's own request, with what the prefill server said; without that its very bytes."""
    return body if transfer is None else json.dumps(asked | {TRANSFER: transfer}).encode()
