"""The judgement of a run: everything in the last status that is worked out from records."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api import status
from benchrun.api.base import StatusModel, entries
from benchrun.api.comparison import Comparison, CostStatus
from benchrun.api.conditions import ConditionStatus, Reason

MAX_REFUSED = 16
"""Refusals kept as text; all are counted."""
MAX_REFUSED_CHARS = 300

_Text = Annotated[str, Field(max_length=4096)]


class Judgement(StatusModel):
    """A run as it was judged. The defaults are those of a run of which nothing was measured."""

    results: list[status.Result] = entries(64)
    searches: list[status.SearchResult] = entries(16)
    findings: list[status.Finding] = entries(64)
    verdict: status.Verdict = "Unknown"
    headline: status.Headline | None = None
    profile: status.ProfileStatus | None = None
    judge: status.Judge | None = None
    cost: CostStatus | None = None
    datasets: list[status.DatasetStatus] = entries(16)
    client: status.ClientStatus | None = None
    """The job's, with engine, its version and shards; None where nothing was measured."""
    comparison: Comparison | None = None
    not_regressed: ConditionStatus | None = None
    """Of the condition NotRegressed, whose message is the comparison's; None: nothing was compared."""
    not_regressed_reason: _Text = ""
    objectives_met: ConditionStatus | None = None  # None: the spec has no objectives.
    valid_reason: str = Field(Reason.INVALID_CELLS, max_length=128)
    """Reason of the condition Valid of a run that was measured to its end."""
    message: _Text = ""  # Message of a run that was measured to its end.
    all_requests_failed: bool = False  # In all stages: the run has failed, though it was measured to its end.
    diagnostic: Annotated[str, Field(max_length=1000)] | None = None
    """The server's own answer to one more request, where every request of a stage failed."""
    measured_anything: bool = False  # Whether there is one record at least.
    truncated: list[status.Truncated] = entries(16)
    refused: list[Annotated[str, Field(max_length=MAX_REFUSED_CHARS)]] = entries(MAX_REFUSED)
    """What was left out because it can't be read or has a wrong digest; the first of them."""
    refused_count: int = 0  # How many.
    duration_seconds: float = 0.0  # What judging took.
