"""The contract's gaps between tokens (ITL): exactly counted over a stage, and how they scatter over its time."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field, model_validator

from benchrun_client.contract.base import Count, Message, Micros

MAX_GAP_VALUES = 50_000  # Distinct gaps between tokens in a record.
MAX_GAP_SLICES = 40
GAP_LEVELS = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9)
"""Percentiles of a stage's gaps that are the edges of its slices."""
_MAX_ABOVE = MAX_GAP_SLICES * len(GAP_LEVELS)


class GapCounts(Message):
    """Inter-token gaps (ITL) as exact counts: `count[i]` gaps of `us[i]` microseconds; `us` ascends."""

    us: Annotated[tuple[Micros, ...], Field(max_length=MAX_GAP_VALUES), FailFast()] = ()
    count: Annotated[tuple[Count, ...], Field(max_length=MAX_GAP_VALUES), FailFast()] = ()

    @model_validator(mode="after")
    def _ascending(self) -> GapCounts:
        if len(self.us) != len(self.count):
            raise ValueError("us and count must be equally long")
        if any(a >= b for a, b in zip(self.us, self.us[1:], strict=False)):
            raise ValueError("us must ascend")
        return self


class GapSlices(Message):
    """Gaps by time, in equal slices from the first send to the last token; a gap belongs to the slice in which it ends."""

    edges_us: Annotated[
        tuple[Micros, ...], Field(min_length=1, max_length=len(GAP_LEVELS))
    ]  # Ascending; equal ones stay.
    gaps: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_GAP_SLICES)]  # Of each slice.
    above: Annotated[tuple[Count, ...], Field(max_length=_MAX_ABOVE), FailFast()]
    """How many gaps are above each edge: those of the first slice, then those of the second ..."""

    @model_validator(mode="after")
    def _within(self) -> GapSlices:
        edges = len(self.edges_us)
        if len(self.above) != len(self.gaps) * edges:
            raise ValueError("above must have an entry for each edge of each slice")
        if any(count > self.gaps[place // edges] for place, count in enumerate(self.above)):
            raise ValueError("no slice has more gaps above an edge than gaps")
        return self
