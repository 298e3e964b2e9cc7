"""The token of a run: whoever presents it to the run's client is the operator."""

from __future__ import annotations

import hashlib
import hmac

_PURPOSE = b"benchrun.token/1\x1f"


def token_of(key: bytes, run_uid: str) -> str:
    """The run's token: nobody can derive it without the operator's key, and a restarted operator finds the same. Hexadecimal.

    The plan holds only its digest, so it stands in no spec, argument or log."""
    return hmac.new(key, _PURPOSE + run_uid.encode(), hashlib.sha256).hexdigest()
