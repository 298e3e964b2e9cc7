"""What the status of a run or a sweep says whose spec can't be acted on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from benchrun.api.conditions import Condition, timestamp


def unaccepted(problem: str, conditions: tuple[Condition, ...], *, generation: int, now: datetime) -> dict[str, Any]:
    """Fields to change, by name. `conditions`: those of an early end."""
    return {
        "observed_generation": generation,
        "phase": "Failed",
        "message": problem,
        "conditions": conditions,
        "completion_time": timestamp(now),
    }
