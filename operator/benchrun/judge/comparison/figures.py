"""A figure of one side with its noise, and the sentence on the outcome of a comparison.

With several runs a side, each run is a fresh server and gives one value. With one run a side the
values come from its repeats, which share the chance effects of their server.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from benchrun import api, plan
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.throughput import arrivals_reason, common, compared_figure
from benchrun.measure import (
    SIGNIFICANT_DIGITS,
    Contrast,
    detected_text,
    known,
    mean_of,
)

ROUNDING_ERROR = (10.0 ** (1 - SIGNIFICANT_DIGITS)) ** 2 / 12
"""Largest squared error of a logarithm that comes from rounding results. It is added to the noise,
because values that agree to the last digit need not be equal."""
ONE_REPEAT = "noise unknown, because there is only one repeat: raise spec.repeats"
ONE_START = (
    "noise unknown, because each side has only one start: compare two or more runs a side (a "
    "sweep, or lists of runs in `benchrun compare`)"
)
_SQUARED_SECOND = 1 / 12
"""Squared error in s² of an instant that is known to the second, as Kubernetes tells them."""
_UNEQUAL_PULLS_SECONDS = 1.0
"""Seconds from which on pulls differ by more than the instants of a start are known to."""
FEW_SERVERS = (
    f"percentiles are compared only with {api.MIN_SERVERS_OF_PERCENTILES} or more "
    "servers on each side"
)
NO_CV = "the results do not say how much the repeats differ"


@dataclass(frozen=True, slots=True)
class NoisyFigure:
    """The value of a metric on one side, with its noise."""

    # Geometric mean over the runs; None where a run has no value.
    value: float | None
    log_mean: Contrast | None = None  # None if the noise is not known.
    problem: str | None = None  # Why the value or the noise is None.
    of_arrivals: str | None = None
    """Why the throughput can't be compared; None if it can. It can't if every run kept up with its
    load, because the throughput then equals the rate of arrivals."""
    log_blocks: Mapping[int, float] = field(default_factory=dict)
    """Logarithm of the value, by block; empty unless each run belongs to a different block."""


def figure_of(
    metric: api.ComparedMetric,
    load_point: str,
    side: Sequence[MeasuredRun],
    beside: Sequence[api.Result] = (),
) -> NoisyFigure:
    """Return a figure of one side at a load point, combined over its runs.

    A throughput is taken from a part of the stage that the rows in `beside` have, too. The noise of
    a single run comes from its repeats.
    """
    rows = rows_at(load_point, side)
    among = (*rows, *beside)
    found = _figure_of(api.KEYS[metric], side, rows, among=among)
    is_of_arrivals = (
        api.KEYS[metric] in api.THROUGHPUTS and common(among) == "Arrivals"
    )
    return (
        replace(found, of_arrivals=arrivals_reason(rows[0]))
        if is_of_arrivals
        else found
    )


def throughput_at(
    load_point: str, runs: Sequence[MeasuredRun]
) -> api.ThroughputOf | None:
    """Return from which part of a stage throughput is taken to compare these runs."""
    return common(rows_at(load_point, runs))


def rows_at(load_point: str, runs: Sequence[MeasuredRun]) -> list[api.Result]:
    """Return the rows of a load point from those runs that have it."""
    return [row for run in runs if (row := run.row(load_point)) is not None]


def _figure_of(
    key: str,
    side: Sequence[MeasuredRun],
    rows: Sequence[api.Result],
    *,
    among: Sequence[api.Result],
) -> NoisyFigure:
    values = []
    for run, row in zip(side, rows, strict=True):
        value = compared_figure(row, key, among=among)
        if value is None or not 0 < value < math.inf:
            return NoisyFigure(None, problem=f"{run.name} has no {key}")
        if key in row.uncertain:
            return NoisyFigure(
                None, problem=f"{run.name} has too few requests for {key}"
            )
        values.append(math.log(value))
    if key.startswith("p") and len(values) < api.MIN_SERVERS_OF_PERCENTILES:
        return NoisyFigure(math.exp(fmean(values)), problem=FEW_SERVERS)
    if len(values) > 1:
        return _over_servers(side, values, least_error=ROUNDING_ERROR)
    row = rows[0]
    value = compared_figure(row, key, among=among)
    cv = row.repeat_cv_percent.get(key)
    if row.repeats < 2 or cv is None:
        return NoisyFigure(value, problem=ONE_REPEAT if row.repeats < 2 else NO_CV)
    squared_error = math.log1p((cv / 100) ** 2) / row.repeats
    return NoisyFigure(
        value,
        Contrast(values[0], max(squared_error, ROUNDING_ERROR), row.repeats - 1),
    )


def _over_servers(
    side: Sequence[MeasuredRun], values: Sequence[float], *, least_error: float
) -> NoisyFigure:
    """Return the figure of several fresh servers from the logarithm of each one's value."""
    mean = mean_of(values)
    noise = replace(mean, squared_error=max(mean.squared_error, least_error))
    blocks = {
        run.block: value
        for run, value in zip(side, values, strict=True)
        if run.block is not None
    }
    return NoisyFigure(
        math.exp(mean.estimate),
        noise,
        log_blocks=blocks if len(blocks) == len(values) else {},
    )


def start_figure(side: Sequence[MeasuredRun]) -> NoisyFigure:
    """Return the time to ready of one side in seconds, without the pull of images.

    Whether a node has an image is chance, and not the configuration's merit. Each run gives one
    value, so that the noise is that of fresh servers.
    """
    found = [
        (run, time_to_ready(run.status.servers, nodes=plan.nodes(run.spec)))
        for run in side
    ]
    for run, seconds in found:
        if not isinstance(seconds, float):
            return NoisyFigure(None, problem=f"{run.name}: {seconds}")
    values = [math.log(s) for _, s in found if isinstance(s, float)]
    if len(values) == 1:
        return NoisyFigure(math.exp(values[0]), problem=ONE_START)
    second = _SQUARED_SECOND / math.exp(2 * fmean(values)) / len(values)
    return _over_servers(side, values, least_error=max(ROUNDING_ERROR, second))


def time_to_ready(
    servers: Sequence[api.ServerStatus], *, nodes: int = 1
) -> float | str:
    """Return the seconds from scheduled to healthy without image pulls, or why they are unknown.

    The end is that of the last pod, but a pull is known only of the first pod of each role. So the
    seconds are unknown if a role has several pods, which may have pulled for different times.
    """
    seconds = [each.seconds_to_ready for each in servers]
    pulls = [
        None if each.startup is None else each.startup.image_pull_seconds
        for each in servers
    ]
    ready = known(seconds)
    if not ready:
        return "its time to ready is not known"
    if any(each.restarts for each in servers):
        return "its server restarted"
    if (pulled := known(pulls)) == [] or len(pulled) < len(pulls):
        return "how long its image was pulled is not known"
    if nodes > 1 or any(each.replicas > 1 for each in servers):
        return (
            "how long the image was pulled is known of the first of its pods alone"
        )
    if max(pulled) - min(pulled) > _UNEQUAL_PULLS_SECONDS:
        return "its roles pulled their images for different times"
    rest = max(ready) - max(pulled)
    return rest if 0 < rest < math.inf else "its time to ready is not known"


_SPOKEN = {
    "Better": "better",
    "Worse": "worse",
    "Equivalent": "equivalent",
    "NoDetectableDifference": "without a detectable difference",
    "Unknown": "unknown",
    "NotComparable": "not comparable",
}


def sentence(
    load_points: Sequence[api.ComparedLoadPoint],
    scope: api.Scope,
    *,
    suspect: int,
    caveats: Sequence[str] = (),
    detectable_percent: float | None = None,
) -> str:
    """Return the outcome of a comparison as a sentence.

    It has the number of changes by outcome, the largest loss, what was left out, the detectable
    change, and for which servers it holds.
    """
    changes = [
        (load_point.load_point, change)
        for load_point in load_points
        for change in load_point.changes
    ]
    if not changes:
        first = next(
            (
                f": {load_point.load_point}: {load_point.reason}"
                for load_point in load_points
            ),
            ": neither side has results",
        )
        return f"no load point is comparable{first}"
    counts: Counter[str] = Counter(change.word for _, change in changes)
    listed = ", ".join(
        f"{counts[word]} {spoken}"
        for word, spoken in _SPOKEN.items()
        if counts[word]
    )
    figures = "1 figure" if len(changes) == 1 else f"{len(changes)} figures"
    parts = [f"{figures}: {listed}", *_most_marked(changes)]
    if left_out := [
        load_point for load_point in load_points if load_point.reason is not None
    ]:
        first = f"{left_out[0].load_point}: {left_out[0].reason}"
        parts.append(
            f"{len(left_out)} of {len(load_points)} load points not comparable ({first})"
        )
    if suspect:
        parts.append(f"{suspect} of {len(load_points)} load points Suspect")
    parts += caveats
    if detectable_percent is not None:
        parts.append(detected_text(detectable_percent))
    if any(change.low_percent is not None for _, change in changes):
        parts += [
            "all intervals, and all outcomes, hold together with 95 % confidence",
            api.SCOPES[scope],
        ]
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _most_marked(changes: Sequence[tuple[str, api.Change]]) -> list[str]:
    """Return, as text, the largest change for the worse, else the largest for the better.

    The list is empty if nothing changed.
    """
    for word, spoken, sign in (
        ("Worse", "the worst", 1),
        ("Better", "the best", -1),
    ):
        found = [
            (load_point, change)
            for load_point, change in changes
            if change.word == word
        ]
        if found:
            signs = [
                -sign if change.metric in api.HIGHER_IS_BETTER else sign
                for _, change in found
            ]
            losses = [
                by * (change.change_percent or 0)
                for by, (_, change) in zip(signs, found, strict=True)
            ]
            load_point, change = found[losses.index(max(losses))]
            span = f"{change.low_percent:+.1f} to {change.high_percent:+.1f}"
            return [
                f"{spoken}: {change.metric} at {load_point} {change.change_percent:+.1f} % ({span})"
            ]
    return []
