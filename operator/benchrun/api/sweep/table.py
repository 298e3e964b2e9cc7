"""What the judge says of a sweep: its table, of all runs that have ended."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import StatusModel
from benchrun.api.comparison import Outcome, Scope
from benchrun.api.status import Truncated, Verdict
from benchrun.api.sweep.matrix import MAX_VARIANTS
from benchrun.api.sweep.status import BestVariant, FoundLoad, FrontPoint, Row

_Name = Annotated[str, Field(max_length=253)]


class TabledRun(StatusModel):
    """A run that the table is made of: one fresh server."""

    variant: _Name
    name: _Name
    uid: _Name


class SweepTable(StatusModel):
    """The table of a sweep."""

    results: list[Row] = Field(default_factory=list)
    best: list[BestVariant] = Field(default_factory=list)
    front: list[FrontPoint] = Field(default_factory=list)
    scope: Scope | None = None
    verdict: Verdict | None = None
    """The worst of all rows."""
    verdicts: Annotated[dict[_Name, Verdict], Field(max_length=MAX_VARIANTS)] = Field(default_factory=dict)
    """By variant, of those that have figures."""
    outcomes: Annotated[dict[_Name, Outcome], Field(max_length=MAX_VARIANTS)] = Field(default_factory=dict)
    """By variant; the baseline has none."""
    searches: Annotated[dict[_Name, list[FoundLoad]], Field(max_length=MAX_VARIANTS)] = Field(default_factory=dict)
    """By variant."""
    truncated: Annotated[list[Truncated], Field(max_length=16)] = Field(default_factory=list)
