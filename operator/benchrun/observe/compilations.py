"""Kernels that a server compiled while it served, as vLLM's log tells.

    2026-11-21T12:00:00.123456789Z (EngineCore_0 pid=7) WARNING ... Triton kernel JIT compilation during inference: f. ...

Each stands for a pause in that instant's answers: the warm-up did not reach that shape. By default vLLM says it once a
kernel; the instant before the line is the kubelet's.
"""

from __future__ import annotations

from datetime import datetime

from benchrun.api.status import MAX_COMPILATIONS

SAID = "JIT compilation during inference"


def compilations(log: str, *, complete: bool) -> tuple[float, ...] | None:
    """When, in Unix seconds, in order. None: the log was not read to its end, or tells of more than are kept: what is missing
    might lie in any stage."""
    if not complete:
        return None
    told = (_instant(line) for line in log.splitlines() if SAID in line)
    found = tuple(sorted(at for at in told if at is not None))
    return found if len(found) <= MAX_COMPILATIONS else None


def _instant(line: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(line.partition(" ")[0])
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
