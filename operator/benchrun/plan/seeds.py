"""Seeds of all traffic, and the order of it, derived so that adding a load point reseeds nothing else."""

from __future__ import annotations

import hashlib

_VERSION = "benchrun.seed/1"
_ORDER_VERSION = "benchrun.order/1"


def stage_seed(*, base: int, workload: str, axis: str, value: str, repeat: int, run_uid: str | None) -> int:
    """32-bit seed of one stage. `run_uid` goes in when the server's cache outlives the run, else equal specs send equal traffic."""
    parts = [_VERSION, str(base), workload, f"{axis}={value}", str(repeat), run_uid or ""]
    return _seed(parts)


def probe_seed(*, base: int, workload: str, probe: int, repeat: int, run_uid: str | None) -> int:
    """32-bit seed of one stage of a search: of its number, not of its load, so that prompts can be written before the load
    is known. `run_uid` as for other stages."""
    return _seed([_VERSION, "search", str(base), workload, str(probe), str(repeat), run_uid or ""])


def warmup_seed(*, base: int, workload: str, run_uid: str | None) -> int:
    """32-bit seed of a workload's warm-up; never that of a stage."""
    return _seed([_VERSION, "warmup", str(base), workload, run_uid or ""])


def shared_seed(*, base: int, workload: str) -> int:
    """32-bit seed of every stage of a workload that sends the same prompts each time, in this run and in the next."""
    return _seed([_VERSION, "shared", str(base), workload])


def place_in_repeat(*, base: int, repeat: int, cell: str) -> bytes:
    """A number to sort a repeat's cells by: in an order that is as good as random, and the same for equal specs."""
    return _digest([_ORDER_VERSION, str(base), str(repeat), cell])


def _seed(parts: list[str]) -> int:
    return int.from_bytes(_digest(parts)[:4], "big")


def _digest(parts: list[str]) -> bytes:
    return hashlib.sha256("\x1f".join(parts).encode()).digest()
