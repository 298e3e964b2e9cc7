"""`load.search`: the highest load that meets the objectives, looked for instead of listed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from benchrun.api.base import NUMBER, Decimal, PositiveDecimal, SpecModel
from benchrun.api.rules import Rule

MAX_PROBES = 32
MAX_REPEATS = 8
MAX_USERS = 100_000
LEAST_BEYOND = 369
"""Requests x (100 - percentile), at least. Fewer requests have no interval around that percentile: -100 x ln 0.025, rounded up."""

_WHOLE = "'^[0-9]+$'"
_TOLERANCE = Rule(
    cel=f"!self.matches({NUMBER}) || (double(self) >= 1.0 && double(self) <= 100.0)",
    holds=lambda text: 1 <= float(text) <= 100,
    message="must be between 1 and 100",
)
_ARE_NUMBERS = f"self.from.matches({NUMBER}) && self.to.matches({NUMBER})"


def _is_whole(search: Search) -> bool:
    return search.axis != "Concurrency" or (search.from_.isdigit() and search.to.isdigit())


def _within_users(search: Search) -> bool:
    return search.axis != "Concurrency" or float(search.to) <= MAX_USERS


class Search(SpecModel):
    """From the lowest load on it doubles until the objectives are not met, then halves the bracket, in ratios."""

    rules = (
        Rule(
            cel=f"self.axis != 'Concurrency' || (self.from.matches({_WHOLE}) && self.to.matches({_WHOLE}))",
            holds=_is_whole,
            message="from and to are whole numbers where the axis is Concurrency",
        ),
        Rule(
            cel=f"self.axis != 'Concurrency' || !self.to.matches({NUMBER}) || double(self.to) <= {MAX_USERS}.0",
            holds=_within_users,
            message=f"to must be at most {MAX_USERS} where the axis is Concurrency",
        ),
        Rule(
            cel=f"!({_ARE_NUMBERS}) || double(self.from) < double(self.to)",
            holds=lambda search: float(search.from_) < float(search.to),
            message="from must be below to",
        ),
    )
    axis: Literal["RequestRate", "Concurrency"] = Field(
        description="What is varied: requests a second (open loop) or users (closed loop)."
    )
    from_: PositiveDecimal = Field(
        alias="from", description="Lowest load, measured first: one that surely meets the objectives."
    )
    to: PositiveDecimal = Field(description="Highest load; the search ends there if it meets the objectives.")
    tolerance_percent: Annotated[Decimal, _TOLERANCE] = Field(
        default="5",
        description="The search ends once the lowest load that does not meet the objectives is so little above the highest "
        "one that does.",
    )
    max_probes: Annotated[int, Field(ge=1, le=MAX_PROBES)] = Field(default=12, description="Most load points.")
    max_repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = Field(
        default=3,
        description="Most stages of a load point. It is measured again, with other prompts, while its requests together can't "
        "tell with 95 % certainty whether the objectives are met; after that it counts as not meeting them.",
    )


_SEARCH = "has(w.load.search)"
_REQUESTS = (
    "(has(w.requests) ? double(w.requests) : "
    f"has(w.durationSeconds) && w.load.search.from.matches({NUMBER}) ? "
    "double(w.durationSeconds) * double(w.load.search.from) : 0.0)"
)
_ENOUGH = (
    f"!has(self.objectives) || self.objectives.all(o, o.metric == 'ITL' || !o.percentile.matches({NUMBER}) || "
    f"{_REQUESTS} * (100.0 - double(o.percentile)) >= {LEAST_BEYOND}.0)"
)


def search_stages(workloads: str, *, listed: str) -> str:
    """CEL for the stages of these workloads; `listed`: those of a workload without a search."""
    most = "w.load.search.maxProbes * w.load.search.maxRepeats"
    return f"{workloads}.map(w, {_SEARCH} ? {most} : {listed}).sum()"


def _searched(spec: Any) -> list[Any]:
    return [workload for workload in spec.workloads if workload.load.search is not None]


def _requests(workload: Any) -> float:
    """Of its smallest stage."""
    if workload.requests is not None:
        return float(workload.requests)
    return (workload.duration_seconds or 0) * float(workload.load.search.from_)


def _are_enough(spec: Any) -> bool:
    return all(
        _requests(workload) * (100 - float(objective.percentile)) >= LEAST_BEYOND
        for workload in _searched(spec)
        for objective in spec.objectives
        if objective.metric != "ITL"
    )


RULES = (
    Rule(
        cel=f"!self.workloads.exists(w, {_SEARCH}) || (has(self.objectives) && size(self.objectives) > 0)",
        holds=lambda spec: bool(spec.objectives) or not _searched(spec),
        message="load.search looks for the highest load that meets the objectives: set at least one",
        path=".objectives",
    ),
    Rule(
        cel=f"!self.workloads.exists(w, {_SEARCH}) || self.repeats == 1",
        holds=lambda spec: spec.repeats == 1 or not _searched(spec),
        message="load.search decides itself how often a load is measured (maxRepeats); leave repeats at 1",
        path=".repeats",
    ),
    Rule(
        cel=f"self.workloads.all(w, !{_SEARCH} || ({_ENOUGH}))",
        holds=_are_enough,
        message="a search needs requests (or durationSeconds x from) for its percentiles: at least 369 a stage for the 99th, "
        "74 for the 95th, 37 for the 90th, in general 369 / (100 - percentile); fewer tell nothing for certain",
        path=".workloads",
    ),
)
"""What a search asks of the rest of the spec."""
