"""What a rule is. One family of rules a file; `catalogue` lists them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from benchrun_client.contract import Probe, StageRecord

from benchrun.api import Cell, Objective, ServerStatus
from benchrun.judge.rules.finding import Code, Explanation, NotChecked, StageFinding
from benchrun.judge.stage_profile import Asked, StageShape
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.cells import Pools, queue_pools
from benchrun.measure.windows import Window

# ---- rules ------------------------------------------------------------------------------------------------------------
# What a rule is. One family of rules a file, with the text of its codes; `catalogue` lists them all.
#
# A rule looks at a stage, at a cell or at the whole run, and returns what it found: nothing when all is well. It never
# guesses: where its input is missing it returns `NotChecked`, because "not checked" must not read as "checked and fine".

Found = Iterable[StageFinding | NotChecked]


@dataclass(frozen=True)
class StageContext:
    """What is known of a stage beside its record."""

    thresholds: Thresholds
    asked: Asked
    windows: tuple[Window, ...] = ()
    """The operator's readings of the servers meanwhile, by role."""
    compilations: tuple[float, ...] | None = None
    """Unix seconds at which the server's log tells of compiling, over the whole run; None: the log could not be read."""
    servers: Sequence[ServerStatus] = ()
    """What the status tells of the servers, one entry a role."""
    _shapes: list[StageShape] = field(default_factory=list, init=False, repr=False, compare=False)

    def shape(self, record: StageRecord) -> StageShape:
        """The record's own story, which rules share. The last one asked for is remembered."""
        if not self._shapes or self._shapes[0].record is not record:
            self._shapes[:] = [StageShape(record, self.asked)]
        return self._shapes[0]


@dataclass(frozen=True)
class MeasuredStage:
    """A record with its context."""

    record: StageRecord
    context: StageContext

    @property
    def shape(self) -> StageShape:
        """How the stage went, by its own requests."""
        return self.context.shape(self.record)


@dataclass(frozen=True)
class CellContext:
    """A cell: its measured stages in order of repeats, and their latencies in one pool."""

    cell: Cell
    thresholds: Thresholds
    asked: Asked
    percentiles: Sequence[str]
    stages: tuple[MeasuredStage, ...]
    pools: Pools = field(default_factory=dict)
    objectives: Sequence[Objective] = ()

    @cached_property
    def queued(self) -> Pools:
        """Latencies with the wait in the client's queue, where a cap may have held an open loop back."""
        return queue_pools([stage.record for stage in self.stages]) if self.asked.capped else {}

    def summary(self) -> CellSummary:
        """What is left of it for the rules of a run."""
        return CellSummary(self.cell, tuple(map(_summary, self.stages)))


@dataclass(frozen=True, slots=True)
class StageSummary:
    """A measured stage without its record."""

    stage_id: str
    sequence: int
    probe: Probe | None
    batches: Mapping[str, Sequence[float]]
    """As its shape has them."""


@dataclass(frozen=True, slots=True)
class CellSummary:
    """A cell without its records: its measured stages in order of repeats."""

    cell: Cell
    stages: tuple[StageSummary, ...]


@dataclass(frozen=True)
class RunContext:
    """The whole run: every cell by id, in the order of the plan."""

    thresholds: Thresholds
    cells: Mapping[str, CellSummary]


StageRule = Callable[[StageRecord, StageContext], Found]
CellRule = Callable[[CellContext], Found]
RunRule = Callable[[RunContext], Found]
"""A finding about a cell carries the cell's id as its `stage_id`."""


def _summary(stage: MeasuredStage) -> StageSummary:
    record = stage.record
    return StageSummary(record.stage_id, record.sequence, record.probe, stage.shape.batches)


# ---- not checked ------------------------------------------------------------------------------------------------------
# Rules that could not look, told in one finding.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.NOT_CHECKED: Explanation(
        meaning="What these rules look for was not looked for: their input is missing. It may be there or not.",
        remedy="The evidence names each rule and what it lacked. Counters: let client and operator reach /metrics, and leave "
        "out --disable-log-stats. Readings or requests: measure longer. At an endpoint.url only the client can look.",
    ),
}
MAX_CODES = 24
"""As many as a finding's evidence holds."""


def not_checked(where: str, missed: Sequence[NotChecked]) -> list[StageFinding]:
    """One Note that names every rule and why, or nothing."""
    if not missed:
        return []
    reasons = {each.code.value: each.why for each in missed}
    evidence = dict(list(reasons.items())[:MAX_CODES])
    return [StageFinding(Code.NOT_CHECKED, "Note", where, evidence, weight=len(reasons))]
