"""The Pareto front of throughput per GPU against TPOT: what can be had at all, before anybody decides what it is worth."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.metric_keys import KEYS
from benchrun.api.sweep.status import FrontPoint
from benchrun.judge.sweep.contenders import Contender
from benchrun.measure.cells import rounded

_Point = tuple[float, float, Contender]
"""Mean TPOT, throughput per GPU, and whose they are."""


def pareto_front(contenders: Sequence[Contender]) -> tuple[FrontPoint, ...]:
    """By workload, from the lowest TPOT on: with each point throughput rises. Of equals the first that is listed."""
    workloads = dict.fromkeys(contender.workload for contender in contenders)
    return tuple(_shown(point) for workload in workloads for point in _front(workload, contenders))


def _front(workload: str, contenders: Sequence[Contender]) -> list[_Point]:
    points = [
        (tpot, contender.throughput, contender)
        for contender in contenders
        if contender.workload == workload and (tpot := contender.mean_of(KEYS["MeanTPOT"])) is not None
    ]
    front: list[_Point] = []
    for point in sorted(points, key=lambda each: (each[0], -each[1])):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front


def _shown(point: _Point) -> FrontPoint:
    tpot, throughput, contender = point
    return FrontPoint(
        workload=contender.workload,
        variant=contender.side.variant.name,
        cell=contender.cell,
        throughput_per_gpu=rounded(throughput) or 0.0,
        mean_tpot_ms=rounded(tpot) or 0.0,
    )
