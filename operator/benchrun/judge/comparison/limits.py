"""What limits the server where two configurations under one load differ in how much runs at once.

Only a load that keeps the server supplied can tell: under a rate, throughput is that of the arrivals whatever runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from benchrun.api.codes import Code
from benchrun.api.status import Bottleneck, Result
from benchrun.judge.bottleneck import MAX_PREEMPTED_PERCENT
from benchrun.judge.bottleneck_sentences import growth, pair_evidence, throughput_is_flat
from benchrun.judge.comparison.comparability import Side
from benchrun.judge.wording import percent
from benchrun.measure.scaling import FLAT_PERCENT, Comparison, OperatingPoint, comparisons

KV_NEARLY_FULL_PERCENT = 95.0
MIN_WAITING = 1.0
"""Requests waiting in the server, on average: with fewer, a client that is late may have left it without."""


def limits(
    baseline: Side, candidate: Side, cells: Iterable[str], *, names: tuple[str, str] = ("baseline", "candidate")
) -> dict[str, Bottleneck]:
    """By load point, of those that are comparable: a limit that the two sides together show. Most show none."""
    before, after = names
    found = {cell: _limit(_point(before, cell, baseline), _point(after, cell, candidate)) for cell in cells}
    return {cell: limit for cell, limit in found.items() if limit is not None}


def _limit(baseline: OperatingPoint | None, candidate: OperatingPoint | None) -> Bottleneck | None:
    pairs = comparisons([baseline, candidate]) if baseline is not None and candidate is not None else []
    return _limit_of(pairs[0]) if pairs else None


def _limit_of(pair: Comparison) -> Bottleneck | None:
    """Throughput that falls is not flat: there, what was changed did harm."""
    if abs(pair.change_percent) <= FLAT_PERCENT:
        return throughput_is_flat(pair, f"from {pair.low.name} to {pair.high.name}")
    usage = pair.high.kv_percent
    if not pair.grows or usage is None or usage < KV_NEARLY_FULL_PERCENT:
        return None
    sentence = f"{growth(pair)}, where KV cache usage is {percent(usage)}: KV memory is the limit."
    evidence = {name: value for name, value in pair_evidence(pair).items() if value is not None}
    return Bottleneck(limit="KVMemory", sentence=sentence, evidence=evidence)


def _point(name: str, cell: str, side: Side) -> OperatingPoint | None:
    """What ran on average, tokens a second and the most KV cache in use; None unless every run of the side can tell."""
    points = [point for run in side if (row := run.row(cell)) is not None and (point := _of_row(row)) is not None]
    if len(points) != len(side):
        return None
    usage = [point.kv_percent for point in points if point.kv_percent is not None]
    running, throughput = fmean(point.running for point in points), fmean(point.throughput for point in points)
    return OperatingPoint(name, running, throughput, max(usage, default=None))


def _of_row(row: Result) -> OperatingPoint | None:
    throughput, server = row.metrics.get("total_token_throughput"), row.roles[0] if row.roles else None
    if server is None or server.running_mean is None or throughput is None:
        return None
    is_supplied = row.axis in ("concurrency", "batch") or row.value == "inf"
    works_twice = 100 * (server.preemptions or 0) > MAX_PREEMPTED_PERCENT * (row.metrics.get("completed") or 0)
    is_starved = Code.CLIENT_SATURATED in row.findings and (server.waiting_mean or 0.0) < MIN_WAITING
    if not is_supplied or works_twice or is_starved:
        return None
    return OperatingPoint(row.cell, server.running_mean, throughput, server.kv_cache_max_percent)
