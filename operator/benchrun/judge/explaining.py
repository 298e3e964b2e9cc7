"""Why requests waited and what limits, for every cell of a run: each by itself, then among those of its workload."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from benchrun.api.status import Bottleneck, Waiting
from benchrun.judge.bottleneck import Observed, bottleneck
from benchrun.judge.finding import Code, StageFinding
from benchrun.judge.overload import overload_of
from benchrun.judge.rules import CellContext
from benchrun.judge.waiting import waiting
from benchrun.measure.cells import duration_seconds
from benchrun.measure.edges import QUEUE_TIME_COUNT, QUEUE_TIME_SUM, rise
from benchrun.measure.pace import stretches
from benchrun.measure.pressure import Lengths, Pressure, pressure
from benchrun.measure.scaling import OperatingPoint
from benchrun.measure.server_limits import ServerLimits
from benchrun.measure.windows import Window


class Explanation(NamedTuple):
    """Of one cell."""

    waiting: Waiting
    bottleneck: Bottleneck


class Seen(NamedTuple):
    """What the explanation of a cell rests on."""

    observed: Observed
    waiting: Waiting
    workload: str


def explanations(seen: Mapping[str, Seen], *, trusted: Collection[str]) -> Mapping[str, Explanation]:
    """Of every measured cell, by its id. Those that are not among the `trusted` are explained, too, but no other is compared
    with them."""

    def others(cell_id: str) -> list[OperatingPoint]:
        of_workload = (
            each.observed.comparable
            for other, each in seen.items()
            if other != cell_id and other in trusted and each.workload == seen[cell_id].workload
        )
        return [point for point in of_workload if point is not None]

    return {
        cell_id: Explanation(each.waiting, bottleneck(each.observed, others(cell_id))) for cell_id, each in seen.items()
    }


def seen_at(cell: CellContext, found: Sequence[StageFinding], limits: ServerLimits) -> Seen:
    """Of a cell with a record. `found` is what the rules see, whatever the spec makes of it."""
    of_role, lengths = _first_role(cell), _lengths(cell)
    under = pressure(of_role, limits, lengths)
    told = waiting(under, limits, lengths=lengths, overload=overload_of(cell.stages, found), queue_ms=_queue_ms(cell))
    observed = Observed(
        point=_point(cell, under),
        pressure=under,
        stretches=stretches(of_role),
        lengths=lengths,
        requests=sum(len(stage.record.requests.ok) for stage in cell.stages),
        always_busy=cell.asked.closed_loop or cell.asked.all_at_once or cell.asked.whole_batches,
        client=_client(found),
    )
    return Seen(observed, told, cell.cell.workload)


def _first_role(cell: CellContext) -> list[Window]:
    windows = [window for stage in cell.stages for window in stage.context.windows]
    return [window for window in windows if window.role == windows[0].role]


def _queue_ms(cell: CellContext) -> float | None:
    """Mean wait of a request in the servers, over all stages; None where a server did not count at both ends."""
    sums = [rise(stage.record.servers, QUEUE_TIME_SUM).value for stage in cell.stages]
    counts = [rise(stage.record.servers, QUEUE_TIME_COUNT).value for stage in cell.stages]
    seconds, requests = (math.fsum(v for v in values if v is not None) for values in (sums, counts))
    return None if None in (*sums, *counts) or not requests else 1000 * seconds / requests


def _lengths(cell: CellContext) -> Lengths | None:
    columns = [stage.record.requests for stage in cell.stages]
    answered = sum(sum(c.ok) for c in columns)
    prompt = sum(sum(compress(c.input_tokens, c.ok)) for c in columns)
    output = sum(sum(compress(c.output_tokens, c.ok)) for c in columns)
    return Lengths(prompt / answered, output / answered) if answered and output else None


def _point(cell: CellContext, under: Pressure | None) -> OperatingPoint | None:
    """Tokens a second over all stages, against what ran meanwhile."""
    columns = [stage.record.requests for stage in cell.stages]
    tokens = sum(sum(compress(column, c.ok)) for c in columns for column in (c.input_tokens, c.output_tokens))
    seconds = math.fsum(duration_seconds(stage.record) for stage in cell.stages)
    if under is None or not seconds or not tokens:
        return None
    return OperatingPoint(cell.cell.id, under.running_mean, tokens / seconds, under.kv_mean_percent)


def _client(found: Sequence[StageFinding]) -> StageFinding | None:
    """Where the client was found saturated; the worst of the stages."""
    saturated = [f for f in found if f.code is Code.CLIENT_SATURATED]
    return max(saturated, key=lambda finding: finding.weight, default=None)
