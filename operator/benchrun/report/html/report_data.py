"""The data of a page: spec, status and result document of a finished run or sweep."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from benchrun_client.contract import Axis, LoadKind, kind_of
from pydantic import ValidationError

from benchrun.api import (
    KEYS,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    LatencyDistribution,
    Result,
    ResultDocument,
    StageResult,
    Timeline,
)
from benchrun.api.sweep import BenchmarkSweepSpec, BenchmarkSweepStatus, SweepRow
from benchrun.observe import Run, Sweep
from benchrun.report.sweep_rows import is_per_gpu

STATUS_ONLY = "the figures are from the run's status, which is limited in size"


@dataclass(frozen=True, slots=True)
class Reported:
    """A finished run and the result document of this run."""

    declared: Run
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus  # With the rows of the document, where there is one.
    document: ResultDocument | None = None
    notes: Sequence[str] = ()  # Why there is no document.

    @property
    def stages(self) -> Sequence[StageResult]:
        """Return the stages in the order of measurement; none if there is no document."""
        return self.document.stages if self.document is not None else ()

    @property
    def timeline(self) -> Timeline | None:
        """Return what the servers did over time; None if that is unknown."""
        return self.document.timeline if self.document is not None else None

    def stages_of(self, load_point: str) -> list[StageResult]:
        """Return the stages of a load point, in the order of measurement."""
        return [stage for stage in self.stages if stage.load_point == load_point]

    def latencies_of(self, load_point: str) -> Mapping[str, LatencyDistribution]:
        """Return the latencies of a load point, its repeats pooled."""
        pooled = self.document.distributions if self.document is not None else ()
        found = (each.latencies for each in pooled if each.load_point == load_point)
        return next(found, {})


class Curve(NamedTuple):
    """The load points of one workload along one axis, the lowest load first.

    A load without an upper bound comes last.
    """

    workload: str
    axis: Axis
    results: tuple[Result, ...]

    @property
    def kind(self) -> type[LoadKind]:
        """Return the kind of load of the curve's first load point."""
        return kind_of(self.axis, self.results[0].value)


def curves(status: BenchmarkRunStatus) -> list[Curve]:
    """Return the results as curves, one for each workload in order."""
    found: dict[tuple[str, Axis], list[Result]] = {
        (row.workload, row.axis): [] for row in status.results
    }
    for row in sorted(status.results, key=lambda row: float(row.value)):
        found[row.workload, row.axis].append(row)
    return [
        Curve(workload, axis, tuple(rows))
        for (workload, axis), rows in found.items()
    ]


@dataclass(frozen=True, slots=True)
class ReportedSweep:
    declared: Sweep
    status: BenchmarkSweepStatus
    series: Mapping[str, Timeline] = field(default_factory=dict)
    """For each variant, what its servers did over time in its first run with a timeline. It is read
    only for an HTML page."""

    @property
    def spec(self) -> BenchmarkSweepSpec | None:
        """Return the parsed spec; None if it is of another version or not valid.

        Without a spec the status is still shown.
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
