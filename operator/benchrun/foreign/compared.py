"""Compare measurements of different tools, figure by figure, where both mean the same by it.

Figures of the steady part are computed by us from the requests of both sides, with intervals: they
mean the same, and two that don't overlap differ. Where a side has no requests, the tools' own
figures stand beside each other if both are ours by definition; without an interval no word is
said. What neither allows is refused, with the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from benchrun.foreign.judged import ForeignJudgement, ForeignLoadPoint
from benchrun.foreign.model import ForeignStage

Word = Literal["Different", "NotDetected", "Unknown"]
UNEQUAL_PERCENT = 2.0
"""Lengths of prompts or answers that differ by more are another workload."""
FIGURES = (
    *(
        f"{statistic}_{latency}_ms"
        for latency in ("ttft", "tpot", "itl", "e2el")
        for statistic in ("mean", "p50", "p90", "p95", "p99")
    ),
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
)


@dataclass(frozen=True, slots=True)
class Value:
    """A figure of one side."""

    value: float
    between: Sequence[float] = ()  # Its 95 % interval; empty: there is none.


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure that means the same on both sides."""

    name: str
    source: Literal["steady part", "by the tools"]
    baseline: Value
    candidate: Value
    word: Word

    @property
    def change_percent(self) -> float | None:
        """Return the change from the baseline; None if that is 0."""
        if not self.baseline.value:
            return None
        return 100 * (self.candidate.value / self.baseline.value - 1)


@dataclass(frozen=True, slots=True)
class LoadOfBoth:
    """A load that both sides measured."""

    load: str
    baseline: str  # Id of the load point.
    candidate: str
    unequal: Sequence[str]
    """What differs besides the tool, in words; then no figure gets a word."""
    figures: Sequence[ComparedFigure]
    refused: Mapping[str, str]
    """Figures that a side has and that can't be compared, with the reason."""


@dataclass(frozen=True, slots=True)
class ForeignComparison:
    """The loads that both sides measured, and those that only one has."""

    load_points: Sequence[LoadOfBoth]
    unmatched: Sequence[str]  # Ids of load points.


def compared(
    baseline: ForeignJudgement, candidate: ForeignJudgement
) -> ForeignComparison:
    """Compare what two sides measured at the same load."""
    before = {_load(each): each for each in baseline.load_points}
    after = {_load(each): each for each in candidate.load_points}
    both = [key for key in before if key is not None and key in after]
    single = [
        side[key].id for side in (before, after) for key in side if key not in both
    ]
    pairs = [_load_point(before[key], after[key]) for key in both]
    return ForeignComparison(pairs, single)


def _load(load_point: ForeignLoadPoint) -> str | None:
    load = load_point.stages[0].load
    return None if load is None else load.model_dump_json()


def _load_point(before: ForeignLoadPoint, after: ForeignLoadPoint) -> LoadOfBoth:
    unequal = list(_unequal(before, after))
    figures = []
    refused = {}
    for name in FIGURES:
        found = _figure(name, before, after, is_equal=not unequal)
        if isinstance(found, ComparedFigure):
            figures.append(found)
        elif found:
            refused[name] = found
    load = before.stages[0].load
    return LoadOfBoth(
        "" if load is None else load.label,
        before.id,
        after.id,
        unequal,
        figures,
        refused,
    )


def _unequal(before: ForeignLoadPoint, after: ForeignLoadPoint) -> Iterator[str]:
    for side in (before, after):
        if side.verdict == "Invalid":
            yield f"{side.id} is Invalid"
    models = [
        {each.model for each in side.stages} - {None} for side in (before, after)
    ]
    if all(models) and models[0] != models[1]:
        names = (", ".join(sorted(map(str, each))) for each in models)
        yield f"the models differ: {' and '.join(names)}"
    for column, what in (
        ("input_tokens", "prompts"),
        ("output_tokens", "answers"),
    ):
        means = [_mean_tokens(side.stages, column) for side in (before, after)]
        if None in means:
            continue
        low, high = sorted(each or 0.0 for each in means)
        if high > low * (1 + UNEQUAL_PERCENT / 100):
            yield f"{what} have {means[0]:.4g} and {means[1]:.4g} tokens on average"


def _mean_tokens(stages: Sequence[ForeignStage], column: str) -> float | None:
    """Return the mean of a column over all answers; None where a file lacks it."""
    found: list[int] = []
    for stage in stages:
        sent = stage.requests
        tokens = None if sent is None else getattr(sent, column)
        if sent is None or tokens is None:
            return None
        found += [each for each, ok in zip(tokens, sent.ok, strict=True) if ok]
    return fmean(found) if found else None


def _figure(
    name: str, before: ForeignLoadPoint, after: ForeignLoadPoint, *, is_equal: bool
) -> ComparedFigure | str:
    """Return a figure of both sides, or why there is none; empty if no side has it."""
    steady = [_steady(side, name) for side in (before, after)]
    if steady[0] is not None and steady[1] is not None:
        word = _word(steady[0], steady[1]) if is_equal else "Unknown"
        return ComparedFigure(name, "steady part", steady[0], steady[1], word)
    theirs = [_by_tool(side, name) for side in (before, after)]
    if theirs[0] is not None and theirs[1] is not None:
        return ComparedFigure(name, "by the tools", theirs[0], theirs[1], "Unknown")
    lacking = [
        side
        for side, of_steady, of_tool in zip(
            (before, after), steady, theirs, strict=True
        )
        if of_steady is None and of_tool is None
    ]
    if len(lacking) == 2:
        return ""
    if not lacking:
        return (
            "one side has it of the steady part only, the other of the whole only"
        )
    return _why(lacking[0].stages[0], name)


def _word(before: Value, after: Value) -> Word:
    if not before.between or not after.between:
        return "Unknown"
    apart = (
        before.between[1] < after.between[0] or after.between[1] < before.between[0]
    )
    return "Different" if apart else "NotDetected"


def _steady(side: ForeignLoadPoint, name: str) -> Value | None:
    value = side.steady.get(name)
    return None if value is None else Value(value, side.intervals.get(name, ()))


def _by_tool(side: ForeignLoadPoint, name: str) -> Value | None:
    """Return the tool's own figure, the mean over repeats; None where one is not ours."""
    values = [
        figure.value
        for stage in side.stages
        for figure in stage.figures
        if (figure.ours or "").replace("median_", "p50_") == name
        and figure.value is not None
    ]
    return Value(fmean(values)) if len(values) == len(side.stages) else None


def _why(stage: ForeignStage, name: str) -> str:
    """Return why a tool has no figure of ours, in the words of its definitions."""
    latency = name.split("_")[1] if name.endswith("_ms") else name
    ours = {each.ours for each in stage.definitions}
    if latency in ours or (latency.endswith("put") and "throughput" in ours):
        return f"{stage.tool} has no such statistic in {stage.file}"
    return f"{stage.tool} has none by our definition"
