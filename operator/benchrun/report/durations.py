"""Lengths of time as people say them, and as they write them on a command line."""

from __future__ import annotations

import re

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_WRITTEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


def told(seconds: float) -> str:
    """Two units at most: `8 s`, `4 min 12 s`, `2 h 5 min`, `3 d`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return f"{whole // 86_400} d"


def age(seconds: float) -> str:
    """One unit, short enough for a column: `8s`, `12m`, `5h`, `3d`."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def clock(seconds: float) -> str:
    """`mm:ss`, from an hour on `h:mm:ss`: lines of a log stay under one another."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def written(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `2h` or `1d`. Raises ValueError."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{text!r} is no length of time; write 90s, 10m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"
