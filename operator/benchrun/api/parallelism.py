"""`client.parallelism`: how many processes send the load, and what only one can do."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from benchrun.api.rules import Rule

AUTO = "Auto"
MAX_PROCESSES = 16

Parallelism = Annotated[int, Field(ge=1, le=MAX_PROCESSES)] | Annotated[str, Field(max_length=4, pattern=f"^{AUTO}$")]

_ONE = f"self.client.parallelism == '{AUTO}' || self.client.parallelism == 1"


def _asks_for_one(spec: Any) -> bool:
    """Auto is one process where only one can do it."""
    return isinstance(spec.client.parallelism, str) or spec.client.parallelism == 1


RULES = (
    Rule(
        cel=f"{_ONE} || self.workloads.all(w, !has(w.load.search))",
        holds=lambda spec: _asks_for_one(spec) or all(w.load.search is None for w in spec.workloads),
        message="client.parallelism: a search chooses each load by what one process saw of the one before; "
        "take 1, or list the loads",
        path=".client.parallelism",
    ),
    Rule(
        cel=f"{_ONE} || !has(self.offline)",
        holds=lambda spec: _asks_for_one(spec) or spec.offline is None,
        message="client.parallelism: offline takes each load in one call, which one process makes; take 1",
        path=".client.parallelism",
    ),
)
