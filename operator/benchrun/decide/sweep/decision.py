"""What a pass over one sweep reads and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from benchrun.api.status import BenchmarkRunStatus
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.api.sweep.table import SweepTable, TabledRun
from benchrun.decide.decision import Event, Manifest, Ref
from benchrun.observe.swept_runs import SweptRun
from benchrun.observe.views import Sweep


@dataclass(frozen=True, slots=True)
class NotCreated:
    """A run that could not be created when it was last tried."""

    name: str
    message: str
    """Why, in a sentence that names the run."""
    curable: bool
    """It may be later, as it is. Otherwise it is invalid and stays so."""
    quota: bool = False
    """A quota has no room for it."""
    leftover: bool = False
    """A run of an earlier sweep of the same name is not gone yet."""


@dataclass(frozen=True, slots=True)
class TableWanted:
    """A table that the judge's process is to make."""

    baseline: str
    """Name of the variant that the others are compared with."""
    runs: tuple[TabledRun, ...]
    """Those that were measured to their end."""
    missing: tuple[tuple[str, str], ...]
    """Variants without figures, and why."""


@dataclass(frozen=True, slots=True)
class TableMade:
    """What came of it."""

    wanted: TableWanted
    table: SweepTable | None
    problem: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class SweepCollected:
    """What memory holds of a sweep that goes on. All of it can be lost and found out again."""

    measured: Mapping[str, BenchmarkRunStatus] = field(default_factory=dict)
    """Of runs that were measured to their end, by uid: what comparisons read (`api.sweep.essence`)."""
    table: TableMade | None = None
    """The table that was made last."""
    conflict: str | None = None
    """A run that stands where one of ours should, and is not."""
    not_created: NotCreated | None = None


@dataclass(frozen=True, slots=True)
class SweepWorld:
    """Everything a pass knows."""

    sweep: Sweep
    runs: Mapping[str, SweptRun]
    """Those that the sweep controls, by name."""
    collected: SweepCollected
    now: datetime


@dataclass(frozen=True, slots=True)
class SweepDecision:
    """What to do now, in this order: cancel, create, write the status, post events; or, first of all, read."""

    status: BenchmarkSweepStatus
    read: tuple[str, ...] = ()
    """Runs whose figures are wanted. They are read, and it is decided again; nothing else is asked for then."""
    table: TableWanted | None = None
    """The table to make. What is decided here does not wait for it; it is decided again when it is there."""
    cancel: tuple[Ref, ...] = ()
    create: tuple[Manifest, ...] = ()
    forget: bool = False
    """The sweep is over: drop what memory holds of it."""
    events: tuple[Event, ...] = ()
