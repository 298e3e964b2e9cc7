"""Amounts as people and vLLM write them: 32k tokens, 48GiB of memory."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(iB|i|B)?", re.IGNORECASE)


def tokens_of(text: str) -> int:
    """A whole number as vLLM reads it: 8k is 8000, 8K is 8192, 25.6k is 25600. Raises ValueError."""
    found = _TOKENS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a whole number; write 8192, 8k (8000) or 8K (8192)")
    digits, suffix = found.groups()
    if "." in digits and (suffix.isupper() or not suffix):
        raise ValueError(f"{text!r} is not a whole number; decimals go with k, m, g or t only")
    base = 1024 if suffix.isupper() else 1000
    return int(float(digits) * base ** _POWER[suffix.lower()])


def bytes_of(text: str) -> int:
    """Memory: 48GiB or 48Gi are 1024-based, 48GB is 1000-based, a bare number is bytes. Raises ValueError."""
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an amount of memory; write for example 48GiB")
    digits, prefix, unit = found.groups()
    base = 1024 if (unit or "").lower() in ("i", "ib") else 1000
    return int(float(digits) * base ** _POWER[prefix.lower()])


def memory(amount: float) -> str:
    """An amount in the largest binary unit that leaves a number above 1: "32 GiB", "17.6 GiB", "640 B"."""
    for unit, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(amount) >= size:
            text = f"{amount / size:.4g}"
            return f"{float(text):,.0f} {unit}" if "e" in text else f"{text} {unit}"
    return f"{amount:.0f} B"
