"""Seeds of all traffic, derived so that adding a load point reseeds nothing else."""

from __future__ import annotations

import hashlib

_VERSION = "benchrun.seed/1"


def stage_seed(*, base: int, workload: str, axis: str, value: str, repeat: int, run_uid: str | None) -> int:
    """32-bit seed of one stage. `run_uid` goes in when the server's cache outlives the run, else equal specs send equal traffic."""
    parts = [_VERSION, str(base), workload, f"{axis}={value}", str(repeat), run_uid or ""]
    return _seed(parts)


def warmup_seed(*, base: int, workload: str, run_uid: str | None) -> int:
    """32-bit seed of a workload's warm-up; never that of a stage."""
    return _seed([_VERSION, "warmup", str(base), workload, run_uid or ""])


def _seed(parts: list[str]) -> int:
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big")
