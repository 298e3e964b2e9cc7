"""`spec.cost` and `status.cost`: what servers cost an hour, to tell what a million tokens cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import PositiveDecimal, SpecModel, StatusModel
from benchrun.api.rules import exactly_one

Currency = Annotated[str, Field(min_length=3, max_length=3, pattern=r"^[A-Z]{3}$")]


class Cost(SpecModel):
    """Exactly one of `perGPUHour` and `perHour`. It changes nothing of the measurement."""

    rules = (exactly_one("per_gpu_hour", "per_hour"),)
    per_gpu_hour: PositiveDecimal | None = Field(
        default=None, description="What a GPU costs an hour, with its share of the node, for example 2.49."
    )
    per_hour: PositiveDecimal | None = Field(
        default=None,
        description="What everything that is measured costs an hour together: for servers without GPUs, and for endpoints.",
    )
    currency: Currency = Field(default="USD", description="Its currency, as three capital letters (ISO 4217).")


class CostStatus(StatusModel):
    """What the servers of a run cost."""

    currency: str = Field(max_length=3, description="Currency of every cost in this status.")
    per_hour: float | None = Field(
        default=None,
        description="What the servers cost an hour together; absent where the price is that of a GPU and no server holds one.",
    )
