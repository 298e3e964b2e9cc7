"""`spec.repeats`, and what ends repeats that go on until everything is decided."""

from typing import Annotated

from benchrun_client.contract import LOOKS, Latency
from pydantic import Field

from benchrun.api.base import NUMBER, Decimal, Percentile, Rule, SpecModel
from benchrun.api.measurement import AUTO, Auto, number_or_auto
from benchrun.api.workloads import LISTED_POINTS, SENT_ONCE

MAX_REPEATS = 100
MAX_LOAD_POINT_REQUESTS = 200_000
"""Most requests of a load point over all repeats: they take some 150 MB of memory while the load
point is judged."""

Repeats = Annotated[
    Annotated[int, Field(ge=1, le=MAX_REPEATS)] | Auto, number_or_auto(MAX_REPEATS)
]


class Budget(SpecModel):
    """What ends `repeats: Auto` where not everything is decided before; the least of these."""

    rules = (
        Rule(
            cel="has(self.requests) || has(self.seconds) || has(self.gpuSeconds)",
            message="must set at least one of requests, seconds and gpuSeconds",
        ),
    )
    requests: Annotated[int, Field(ge=1, le=MAX_LOAD_POINT_REQUESTS)] | None = (
        Field(None, description="Most measured requests, of all load points.")
    )
    seconds: Annotated[int, Field(ge=1, le=604_800)] | None = Field(
        None, description="Most seconds from the start of the warm-up."
    )
    gpu_seconds: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None,
        description="Most GPU seconds from the start of the warm-up; start-up is not counted.",
    )


_PERCENT = Rule(
    cel=f"!self.matches({NUMBER}) || (double(self) >= 1.0 && double(self) <= 100.0)",
    message="must be between 1 and 100",
)


class Width(SpecModel):
    """How narrow the interval of a percentile is to be."""

    metric: Latency = Field(description="The latency.")
    percentile: Percentile = Field("99", description="Percentile of the metric.")
    percent: Annotated[Decimal, _PERCENT] = Field(
        description="Most that either end may lie from the percentile, in percent of it."
    )


_FIXED = f"self.repeats != '{AUTO}'"
_IS_WORD = "!string(self.repeats).matches('^[0-9]+$')"
"""CEL: Auto, or a word that its pattern refuses: no rule need tell it as a second fault."""
_RATES = "w.load.requestRates"
_POINTS = f"double({LISTED_POINTS}0)"
_ONE_REPEAT = (
    f"self.workloads.map(w, has(w.requests) ? double(w.requests) * {_POINTS} : "
    "double(has(w.durationSeconds) ? w.durationSeconds : 0) * "
    f"(has({_RATES}) ? {_RATES}.map(r, r.matches({NUMBER}) && r != 'inf' ? double(r) : 0.0).sum()"
    " : 0.0)).sum()"
)

AUTO_RULES = (
    Rule(
        cel=f"{_FIXED} || has(self.budget)",
        message="repeats: Auto goes on until all is decided: set budget, which ends it otherwise",
        path=".budget",
    ),
    Rule(
        cel=f"!has(self.budget) || {_IS_WORD}",
        message="budget ends repeats: Auto: set repeats: Auto, or remove budget",
        path=".budget",
    ),
    Rule(
        cel=(
            f"{_FIXED} || (has(self.objectives) && size(self.objectives) > 0) || "
            "(has(self.widths) && size(self.widths) > 0)"
        ),
        message=(
            "repeats: Auto goes on until every objective is decided and every width is reached: "
            "set objectives or widths, or a number of repeats"
        ),
        path=".repeats",
    ),
    Rule(
        cel=f"{_IS_WORD} || !has(self.widths) || size(self.widths) == 0",
        message="widths are what repeats: Auto measures for: set repeats: Auto, or remove widths",
        path=".widths",
    ),
    Rule(
        cel=(
            f"{_FIXED} || !has(self.budget) || !has(self.budget.requests) || "
            f"{_ONE_REPEAT} <= double(self.budget.requests)"
        ),
        message=(
            "budget.requests is less than the requests of every load point once: raise it, or "
            "measure fewer load points or requests"
        ),
        path=".budget.requests",
    ),
    Rule(
        cel=(
            f"{_FIXED} || (!has(self.offline) && self.workloads.all(w, "
            "!has(w.dataset.timedTrace)))"
        ),
        message=(
            "repeats: Auto needs traffic that differs from repeat to repeat, from users or at a "
            "rate: with dataset.timedTrace or offline set a number of repeats"
        ),
        path=".repeats",
    ),
    Rule(
        cel=(
            f"{_FIXED} || (self.measurement.cachePolicy != 'Share' && "
            f"self.workloads.all(w, {SENT_ONCE}))"
        ),
        message=(
            "repeats: Auto needs new prompts in each repeat: set cachePolicy Isolate or Reset, and "
            "no random.seed, shareGPT.seed or texts.order File; or set a number of repeats"
        ),
        path=".measurement.cachePolicy",
    ),
    Rule(
        cel=f"{_FIXED} || !has(self.baseline)",
        message=(
            "a baseline is compared with as many repeats: with repeats: Auto remove baseline, or "
            "set a number of repeats"
        ),
        path=".baseline",
    ),
    Rule(
        cel=f"{_FIXED} || !has(self.measurement.profile)",
        message="measurement.profile needs a number of repeats: set it, or remove the profile",
        path=".measurement.profile",
    ),
    Rule(
        cel=f"{_FIXED} || self.client.parallelism == '{AUTO}' || self.client.parallelism == 1",
        message="repeats: Auto needs client.parallelism 1; or set a number of repeats",
        path=".client.parallelism",
    ),
)
"""Rules on `repeats: Auto`. A search is refused with any repeats but 1."""


def most_repeats(
    repeats: int | str,
    *,
    load_points: int,
    requests: int,
    cheapest: int,
    stages: int,
) -> int:
    """Return how often a load point is measured at most.

    With Auto that is what the last one may get that is not decided: after one repeat of all load
    points, the rest of `requests` goes to it alone. `cheapest` is the fewest requests of a load
    point, `stages` the most stages of a run.
    """
    if isinstance(repeats, int):
        return repeats
    each = stages // max(1, load_points)
    rest = requests - cheapest * load_points
    return max(1, min(LOOKS[-1], each, 1 + max(0, rest) // max(1, cheapest)))
