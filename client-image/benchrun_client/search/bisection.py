"""How a search proceeds: whether a load meets the objectives, and which load comes next. Pure.

A search begins at its lowest load and doubles it until a load does not meet the objectives. That
load and the highest that met them are the bracket, whose geometric middle is measured next, again
and again. So a server never gets more than twice a load that it could bear. Each of these loads is
measured once, by a probe. Where its outcome is not certain, the measured percentile decides, which
is good enough to steer. But of many loads the highest that met is likely one that was lucky. So
further stages, with prompts of their own, confirm the load that was found; they are repeated until
the outcome is certain, up to a bound. Only confirmations count as the result. The allowed error is
divided among the loads that may be confirmed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from operator import add, sub

from benchrun_client import contract
from benchrun_client.stage_record import (
    RawStage,
    gap_counts,
    gap_slices,
    request_columns,
    sliced_gaps,
    summed,
)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The values of a stage that decide whether its load meets the objectives."""

    requests: int
    failed: int  # Number of failed requests among `requests`.
    shape: contract.StageShape
    values: Mapping[str, Sequence[float | None]]
    """Metric -> value of every request in microseconds; infinite for a failed request, None for a
    request that has no value."""
    gaps: tuple[contract.GapCounts, contract.GapSlices | None] = (
        contract.GapCounts(),
        None,
    )
    """Gaps between tokens of the steady part; only filled in if an objective is on ITL."""
    failed_ratio: float = 0.0
    """Ratio of failed to answered requests in the steady part."""


def load_result(
    search: contract.SearchPlan, here: "Position", raw: RawStage
) -> LoadResult:
    """Return the values of a measured stage that decide whether its load meets the objectives."""
    needs_gaps = any(limit.metric == "ITL" for limit in search.objectives)
    return result_of(
        search, here, request_columns(raw), sliced_gaps(raw) if needs_gaps else []
    )


def result_of(
    search: contract.SearchPlan,
    here: "Position",
    columns: contract.RequestColumns,
    slices: Sequence[Counter[int]] = (),
) -> LoadResult:
    """Build the load result from a stage's requests and its token gaps by slices of time."""
    load = search.load_at(here.value)
    begins = (
        list(map(sub, columns.start_us, columns.queue_us))
        if load.is_open
        else columns.start_us
    )
    ends = list(map(add, columns.start_us, columns.e2el_us))
    part = contract.find_plateau(columns, contract.in_flight(columns), load)
    steady = part if isinstance(part, contract.Plateau) and part.is_steady else None
    metrics = {limit.metric for limit in search.objectives}
    return LoadResult(
        requests=len(columns.ok),
        failed=columns.ok.count(0),
        shape=contract.stage_shape(
            begins,
            ends,
            users=load.users,
            counted=None if steady is None else steady.started,
            is_steady=steady is not None,
        ),
        values={
            metric: _values(metric, contract.sent_when_due(columns, load))
            for metric in metrics - {"ITL"}
        },
        gaps=contract.counted_gaps(
            columns,
            gap_counts(summed(slices)),
            gap_slices(slices),
            steady,
        ),
        failed_ratio=contract.failed_ratio(columns.ok, steady),
    )


def _values(metric: str, columns: contract.RequestColumns) -> list[float | None]:
    values: Iterable[float | None] = (
        columns.ttft_us if metric == "TTFT" else columns.e2el_us
    )
    if metric == "TTFRT":
        begun = columns.reasoning_us or [0] * len(columns.ok)
        values = (us or None for us in begun)
    if metric == "TTFAT":
        # An answer that ended within its reasoning never began.
        values = (us or math.inf for us in columns.answer_us or columns.ttft_us)
    if metric == "TPOT":
        rows = zip(
            columns.e2el_us, columns.ttft_us, columns.output_tokens, strict=True
        )
        values = (
            (e2el - ttft) / (tokens - 1) if tokens > 1 else None
            for e2el, ttft, tokens in rows
        )
    return [
        value if ok else math.inf
        for value, ok in zip(values, columns.ok, strict=True)
    ]


def outcome_of(
    search: contract.SearchPlan, here: "Position", results: Sequence[LoadResult]
) -> contract.Outcome:
    """Return the outcome of all stages of a load together.

    Met: every objective is certainly met. Missed: an objective is certainly missed, or more
    requests failed than the search allows. For a probe, which only steers, the measured percentile
    decides what is not certain; it is Inconclusive only without values.
    """
    requests = sum(each.requests for each in results)
    failed = sum(each.failed for each in results)
    if 100 * failed > float(search.max_failed_percent) * requests:
        return "Missed"
    outcomes = {_of_limit(here, limit, results) for limit in search.objectives}
    worst: tuple[contract.Outcome, ...] = ("Missed", "Inconclusive")
    return next((each for each in worst if each in outcomes), "Met")


def _of_limit(
    here: "Position", limit: contract.Limit, results: Sequence[LoadResult]
) -> contract.Outcome:
    """Return whether one objective is met, missed or undecided."""
    sample = _sample(limit.metric, results)
    if not sample.count:
        return "Inconclusive"
    percent = float(limit.percentile)
    limit_us = 1000.0 * limit.max_milliseconds
    error = contract.CONFIRMATION_ERROR if here.confirmation else contract.ERROR
    found = contract.decided(
        sample, percent, limit_us, error=error, one_stretch=False
    )
    if found.outcome == "Inconclusive" and not here.confirmation:
        return "Met" if found.value <= limit_us else "Missed"
    return found.outcome


def _sample(metric: str, results: Sequence[LoadResult]) -> contract.LatencySample:
    shapes = [each.shape for each in results]
    if metric != "ITL":
        return contract.RequestSample(
            shapes, [each.values[metric] for each in results]
        )
    ratios = [each.failed_ratio for each in results]
    return contract.GapSample(shapes, [each.gaps for each in results], ratios)


FACTOR = 2  # Factor from one load to the next, until the first load that misses the objectives.
# Digits of a rate between two others: finer than the finest tolerance.
SIGNIFICANT_DIGITS = 4
SMALLEST_EXPONENT = -6  # A rate has six decimals at most.


@dataclass(frozen=True, slots=True)
class Position:
    """One stage of a search: which load it measures, and the bracket so far."""

    number: int
    """Number of the load: from 1 for probes, from `max_probes` + 1 for confirmed loads."""
    repeat: int  # Number of the stage, from 1; only confirmations are repeated.
    value: Decimal
    met: Decimal | None = None  # Highest load that met the objectives so far.
    not_met: Decimal | None = None  # Lowest load that did not meet them.
    confirmation: int = 0
    """Number of the load that is confirmed, from 1; 0: the stage is a probe."""


def first(search: contract.SearchPlan) -> Position:
    """Return the first step of a search: the lowest load."""
    return Position(number=1, repeat=1, value=Decimal(search.lowest.value))


def after(
    search: contract.SearchPlan, here: Position, outcome: contract.Outcome
) -> Position | None:
    """Return the next stage; None if the search has ended.

    `outcome` is the outcome of all repeats at this load together.
    """
    if here.confirmation:
        if outcome == "Inconclusive" and here.repeat < search.max_repeats:
            return replace(here, repeat=here.repeat + 1)
        return (
            None
            if outcome == "Met"
            else _confirmation(search, here, _below(search, here))
        )
    met = here.value if outcome == "Met" else here.met
    not_met = here.not_met if outcome == "Met" else here.value
    value = (
        None
        if here.number == search.max_probes
        else _next_value(search, met, not_met)
    )
    if value is not None:
        return Position(here.number + 1, 1, value, met, not_met)
    return _confirmation(search, replace(here, met=met, not_met=not_met), met)


def _confirmation(
    search: contract.SearchPlan, here: Position, value: Decimal | None
) -> Position | None:
    """Return the first stage that confirms a load.

    None if there is no load to confirm, or as many as allowed were tried (`CONFIRMATIONS`).
    """
    if value is None or here.confirmation == contract.CONFIRMATIONS:
        return None
    confirmation = here.confirmation + 1
    number = search.max_probes + confirmation
    return replace(
        here, number=number, repeat=1, value=value, confirmation=confirmation
    )


def may_follow(search: contract.SearchPlan, here: Position) -> tuple[Position, ...]:
    """Return every stage that may be the next, each once.

    Their prompts can be written before the outcome is known.
    """
    following = (
        after(search, here, outcome)
        for outcome in ("Met", "Missed", "Inconclusive")
    )
    return tuple(dict.fromkeys(each for each in following if each is not None))


def _next_value(
    search: contract.SearchPlan, met: Decimal | None, not_met: Decimal | None
) -> Decimal | None:
    highest = Decimal(search.highest)
    if met is None:
        return None
    if not_met is None:
        return None if met >= highest else min(met * FACTOR, highest)
    if (not_met - met) * 100 <= met * Decimal(search.tolerance_percent):
        return None
    middle = _rounded(search, (met * not_met).sqrt(), ROUND_HALF_EVEN)
    return middle if met < middle < not_met else None


def _below(search: contract.SearchPlan, here: Position) -> Decimal | None:
    """Return the load to confirm next if this one was not confirmed; None at the lowest load.

    It is lower by the tolerance, the second time by four times the tolerance, and never below the
    search's lowest load.
    """
    lowest = Decimal(search.lowest.value)
    if here.value <= lowest:
        return None
    step = 1 + here.confirmation**2 * Decimal(search.tolerance_percent) / 100
    return max(lowest, _rounded(search, here.value / step, ROUND_FLOOR))


def _rounded(search: contract.SearchPlan, value: Decimal, rounding: str) -> Decimal:
    exponent = (
        0
        if search.lowest.is_whole
        else max(value.adjusted() - SIGNIFICANT_DIGITS + 1, SMALLEST_EXPONENT)
    )
    return value.quantize(Decimal(1).scaleb(exponent), rounding)


def every_stage(search: contract.SearchPlan) -> tuple[contract.Stage, ...]:
    """Return every possible stage, with the most requests it may have.

    The first is at the lowest load, the others at the highest.
    """
    return tuple(
        stage_at(
            search,
            Position(
                number,
                repeat,
                Decimal(search.lowest.value if number == 1 else search.highest),
            ),
        )
        for number, repeat in search.places
    )


def stage_at(search: contract.SearchPlan, here: Position) -> contract.Stage:
    load = search.load_at(here.value)
    return contract.Stage(
        **{name: getattr(search, name) for name in contract.Requests.model_fields},
        id=contract.open_stage_id(search.workload, here.number, here.repeat),
        repeat=here.repeat,
        load=load,
        requests=search.requests_at(load),
        seed=search.seeds[search.places.index((here.number, here.repeat))],
        ignore_eos=search.ignore_eos,
    )
