"""A cell: a workload at a load point, its repeats pooled. The unit of every result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Axis = Literal["rate", "concurrency", "speed", "batch"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the results."""

    id: str
    """`chat/rate=4`."""
    workload: str
    axis: Axis
    value: str
    """Canonical load value: "4", "0.5", "inf"."""
    stage_ids: tuple[str, ...]
    """Its repeats, first to last."""
