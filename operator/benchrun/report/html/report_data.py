"""A finished run or sweep with the data of its page: spec, status, records and samples."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from benchrun_client.contract import (
    Axis,
    LoadKind,
    StageRecord,
    kind_of,
    open_stage,
)
from pydantic import ValidationError

from benchrun.api import (
    KEYS,
    TRUSTED,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Code,
    LoadPoint,
    Result,
    Sample,
)
from benchrun.api.sweep import BenchmarkSweepSpec, BenchmarkSweepStatus, SweepRow
from benchrun.judge.objectives import inconclusive
from benchrun.judge.result_row import measured_row
from benchrun.judge.results import load_point_context
from benchrun.judge.rules.rule import StageFinding
from benchrun.judge.thresholds import thresholds_of
from benchrun.observe import Run, Sweep
from benchrun.plan import probed_id, searched
from benchrun.report.sweep_rows import is_per_gpu

FIELDS = frozenset(
    f"results[].{name}" for name in ("metrics", "steady", "intervals", "objectives")
)
"""Fields that `restored` recomputes, by their names in `truncated`."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A run and its stored measurement."""

    declared: Run
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus
    records: Sequence[
        StageRecord
    ] = ()  # The kept records, in the order of measurement.
    samples: Sequence[Sample] = ()  # The servers' samples, oldest first.
    notes: Sequence[str] = ()  # Sentences on what could not be read.

    def records_of(self, load_point: str) -> list[StageRecord]:
        """Return the records of a load point that are kept, one for each repeat."""
        return [
            record
            for record in self.records
            if self.load_point_of(record) == load_point
        ]

    def load_point_of(self, record: StageRecord) -> str:
        """Return the load point of a record: `chat/rate=4` for the stage `chat/rate=4/r2`.

        The name of a search's stage has its number and not its load, which its record has.
        """
        place = open_stage(record.stage_id)
        if place is not None and place[0] in searched(self.spec):
            return probed_id(place[0], record)
        return record.stage_id.rpartition("/")[0]


class Curve(NamedTuple):
    """The load points of one workload along one axis, the lowest load first.

    A load point without a bound comes last.
    """

    workload: str
    axis: Axis
    results: tuple[Result, ...]

    @property
    def kind(self) -> type[LoadKind]:
        """Return the kind of the lowest load."""
        return kind_of(self.axis, self.results[0].value)


def curves(status: BenchmarkRunStatus) -> list[Curve]:
    """Return the results as curves, in the order of the workloads."""
    found: dict[tuple[str, Axis], list[Result]] = {
        (row.workload, row.axis): [] for row in status.results
    }
    for row in sorted(status.results, key=lambda row: float(row.value)):
        found[row.workload, row.axis].append(row)
    return [
        Curve(workload, axis, tuple(rows))
        for (workload, axis), rows in found.items()
    ]


def restored(run: Reported) -> Reported:
    """Return the run with the figures that were cut from its status.

    They are recomputed for the load points whose records are all kept.
    """
    if FIELDS.isdisjoint(cut.field for cut in run.status.truncated):
        return run
    rows = [_restored(run, row) for row in run.status.results]
    whole = all(len(run.records_of(row.load_point)) == row.repeats for row in rows)
    truncated = [
        cut for cut in run.status.truncated if not (whole and cut.field in FIELDS)
    ]
    return replace(
        run,
        status=run.status.model_copy(
            update={"results": rows, "truncated": truncated}
        ),
    )


def _restored(run: Reported, row: Result) -> Result:
    records = run.records_of(row.load_point)
    if not records or len(records) != row.repeats:
        return row
    confirms = any(
        record.probe is not None and record.probe.confirms for record in records
    )
    load_point = LoadPoint(
        row.load_point, row.workload, records[0].load, (), confirms
    )
    limits = thresholds_of(run.spec)
    context = load_point_context(
        load_point,
        records,
        run.samples,
        limits,
        spec=run.spec,
        servers=run.status.servers,
    )
    hidden = [
        code
        for code in Code
        if code is Code.CHUNKS_ARE_NOT_TOKENS and code in row.findings
    ]
    whole = measured_row(
        context,
        [StageFinding(code, "Note", row.load_point) for code in hidden],
        spec=run.spec,
    )
    update = {
        "metrics": whole.metrics | row.metrics,
        "intervals": whole.intervals | row.intervals,
        "steady": whole.steady | row.steady,
        "uncertain": whole.uncertain,
        "objectives": whole.objectives
        if row.verdict in TRUSTED
        else inconclusive(whole.objectives),
    }
    return row.model_copy(update=update)


@dataclass(frozen=True, slots=True)
class ReportedSweep:
    declared: Sweep
    status: BenchmarkSweepStatus
    series: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    """Samples of the servers of each variant's first run that kept any, oldest first; read for a
    page only."""

    @property
    def spec(self) -> BenchmarkSweepSpec | None:
        """Return the parsed spec; None: it is of another version, or not valid.

        The status is shown nevertheless.
        """
        with suppress(ValidationError):
            return BenchmarkSweepSpec.model_validate(self.declared.spec)
        return None

    def throughput(self, row: SweepRow) -> float | None:
        """Return a row's output tokens a second, in the unit in which variants are compared."""
        output = row.metrics.get(KEYS["OutputThroughput"])
        if output is None or not is_per_gpu(self.status):
            return output
        gpus = next(
            each.gpus for each in self.status.variants if each.name == row.variant
        )
        return output / gpus
