"""What a page is made of: everything that is known of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from benchrun_client.contract import StageRecord, open_stage

from benchrun.api.cells import Axis
from benchrun.api.names import cell_id
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus, Result
from benchrun.measure.samples import Sample
from benchrun.plan.searches import axis_of

AXIS_UNITS: Mapping[Axis, str] = {
    "rate": "requests/s",
    "concurrency": "users",
    "speed": "times as fast",
    "batch": "requests a batch",
}
"""Of the loads, as they follow a number."""
AXIS_TITLES: Mapping[Axis, str] = {
    "rate": "requests/s asked for",
    "concurrency": "users",
    "speed": "speed of the trace",
    "batch": "batch size",
}


@dataclass(frozen=True, slots=True)
class Reported:
    """A run and what it stored."""

    name: str
    namespace: str
    uid: str
    written: Mapping[str, object]
    """The spec as the API server holds it."""
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus
    records: Sequence[StageRecord] = ()
    """Those that are left, in order of measurement."""
    samples: Sequence[Sample] = ()
    """Readings of the servers, oldest first."""
    notes: Sequence[str] = field(default=())
    """What could not be read."""

    def records_of(self, cell: str) -> list[StageRecord]:
        """The repeats of a cell that are left."""
        return [record for record in self.records if self.cell_of(record) == cell]

    def cell_of(self, record: StageRecord) -> str:
        """`chat/rate=4` of the stage `chat/rate=4/r2`. A stage of a search is called by its number, not by its load."""
        place = open_stage(record.stage_id)
        if record.probe is not None and place is not None:
            name = place[0]
            axes = {
                each.name: axis_of(each.load.search) for each in self.spec.workloads if each.load.search is not None
            }
            if name in axes:
                return cell_id(name, axes[name], record.probe.value)
        return record.stage_id.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Curve:
    """The load points of one workload along one axis, lowest load first; one without a bound comes last."""

    workload: str
    axis: Axis
    results: tuple[Result, ...]

    @property
    def unit(self) -> str:
        """Of the loads."""
        return AXIS_UNITS[self.axis]

    @property
    def axis_title(self) -> str:
        """Of a chart."""
        return AXIS_TITLES[self.axis]


def curves(status: BenchmarkRunStatus) -> list[Curve]:
    """All results, in the order of the workloads."""
    order = list(dict.fromkeys((row.workload, row.axis) for row in status.results))
    rows = sorted(status.results, key=lambda row: (order.index((row.workload, row.axis)), float(row.value)))
    return [
        Curve(workload, axis, tuple(group))
        for (workload, axis), group in groupby(rows, key=lambda row: (row.workload, row.axis))
    ]


def load_text(value: str) -> str:
    """A load value for people."""
    return "all at once" if value == "inf" else value
