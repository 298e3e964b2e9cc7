"""The throughput of a load point that is compared, priced and shown.

It is taken from the plateau, from the arrivals, or from the whole stage.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchrun_client.contract import kind_of

from benchrun.api import THROUGHPUTS, Result, ThroughputOf
from benchrun.judge.rules.rule import Code, StageFinding, number
from benchrun.judge.rules.steady_state import BEYOND_CAPACITY
from benchrun.judge.stage_facts import StageFacts
from benchrun.measure import Plateau, completed_in, plateau_totals, totals

# At a rate that a server keeps up with, throughput is that of the arrivals: it says nothing about
# the server, and is not compared where both sides kept up. Where one did not, the other's is a
# lower bound, and the difference is real.

SKIPPED_SHARE = 0.1
"""Share of a trace's arrivals that is skipped at its beginning, where requests find an idle server.
A trace has no plateau."""
DEVIATIONS = 2.0
"""Standard deviations that count as chance: the requests in the system at two instants differ by
sqrt(2 L), where L is their mean (Poisson, as in M/G/inf)."""
MOST_BY_CHANCE = 0.1
"""Most missing answers that may be put down to chance, as a share of the arrivals. With a larger
share it would be unclear whether the server kept up."""


def throughput_of(
    stages: Sequence[StageFacts], found: Sequence[StageFinding]
) -> ThroughputOf | None:
    """Return from which part of its stages the throughput of a load point is taken.

    It depends on the stages and their findings. Return None if there are no stages.
    """
    if not stages:
        return None
    if kept_up(stages, found):
        return "Arrivals"
    return (
        "Plateau"
        if all(isinstance(stage.plateau, Plateau) for stage in stages)
        else "Stage"
    )


def throughputs(
    stages: Sequence[StageFacts], *, on_plateaus: bool = True
) -> Mapping[str, float | None]:
    """Return the throughputs of pooled stages, by the keys in THROUGHPUTS.

    They are taken on the plateaus if every stage has one, otherwise over whole stages.
    """
    plateaus = [
        (stage.record, stage.plateau)
        for stage in stages
        if isinstance(stage.plateau, Plateau)
    ]
    of_plateaus = on_plateaus and len(plateaus) == len(stages)
    found = (
        plateau_totals(plateaus)
        if of_plateaus
        else totals([stage.record for stage in stages])
    )
    return {key: found.get(key) for key in THROUGHPUTS}


def kept_up(stages: Sequence[StageFacts], found: Sequence[StageFinding]) -> bool:
    """Return whether an open loop was served as fast as it arrived.

    It was if there is no finding of a growing queue and, while requests arrived, the answers were
    fewer than the arrivals by at most what a threshold or chance allows, whichever is more.
    """
    if any(
        f.code is Code.NOT_STEADY_STATE
        and f.evidence.get("cause") == BEYOND_CAPACITY
        for f in found
    ):
        return False
    intervals = [
        (stage, interval)
        for stage in stages
        if (interval := _arriving(stage)) is not None
    ]
    if not intervals or len(intervals) < len(stages):
        return False
    arrived = sum(
        interval.start_us < due <= interval.end_us
        for stage, interval in intervals
        for due in stage.due_us
    )
    completed = sum(
        completed_in(stage.requests, interval) for stage, interval in intervals
    )
    in_system = math.fsum(
        stage.demand.mean(each.start_us, each.end_us) or 0.0
        for stage, each in intervals
    )
    by_chance = min(DEVIATIONS * math.sqrt(2 * in_system), MOST_BY_CHANCE * arrived)
    by_threshold = (
        1 - stages[0].thresholds.steady_completed_percent / 100
    ) * arrived
    return arrived > 0 and arrived - completed <= max(by_threshold, by_chance)


def _arriving(stage: StageFacts) -> Plateau | None:
    """Return the part of a stage in which requests arrived at an even pace.

    For an open loop it is the plateau, for a trace all but its beginning; None for any other load.
    """
    if not stage.due_us:
        return None
    first = min(stage.due_us)
    last = max(stage.due_us)
    if stage.load.follows_trace:
        part = Plateau(first + math.ceil(SKIPPED_SHARE * (last - first)), last, ())
    elif stage.load.rate is not None and isinstance(stage.plateau, Plateau):
        part = replace(stage.plateau, end_us=min(stage.plateau.end_us, last))
    else:
        return None
    return part if part.length_us > 0 else None


def common(rows: Sequence[Result]) -> ThroughputOf | None:
    """Return from which part of a stage the throughputs of these rows are compared.

    Return Arrivals if all servers kept up, Plateau if every row has a throughput of the steady
    part, otherwise Stage. Return None if a row does not say from which part its throughput is
    taken; then whole stages are compared.
    """
    found = {row.throughput_of for row in rows}
    if None in found:
        return None
    if found == {"Arrivals"}:
        return "Arrivals"
    return "Plateau" if all(row.has_plateau for row in rows) else "Stage"


def compared_figure(
    row: Result, key: str, *, among: Sequence[Result]
) -> float | None:
    """Return a figure of a row, by its key in `metrics`, to compare it with the rows of `among`.

    It is the figure of the steady part if every row of `among` has one, otherwise the figure of
    whole stages; latencies count from when requests were due if no row has a steady part. If all
    servers kept up (`common` returns Arrivals), a throughput is that of the row's own steady part,
    or of whole stages where the row has none, as with a trace.
    """
    alike = (
        common(among) in ("Plateau", "Arrivals")
        if key in THROUGHPUTS
        else all(each.has_steady(key) for each in among)
        and len({each.is_steady for each in among}) == 1
    )
    return row.figure(key) if alike else row.metrics.get(key)


def arrivals_reason(row: Result) -> str:
    """Return as text why the throughputs of a load point are not compared."""
    served = number(row.figure(THROUGHPUTS[0]))
    offered = kind_of(row.axis, row.value).offered(row.value)
    return f"{offered} and {served} were served: the load limited the throughput"
