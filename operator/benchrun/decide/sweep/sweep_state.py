"""The state of a sweep in one reconcile, derived once from what is observed, and its decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from statistics import fmean

from pydantic import ValidationError

from benchrun import names
from benchrun.api import BenchmarkRunStatus, Code, Reason, first_problem
from benchrun.api.sweep import (
    MAX_ROWS,
    BenchmarkSweepSpec,
    BenchmarkSweepStatus,
    SweepTable,
    TabledRun,
    named,
)
from benchrun.decide import SERVER_SETTINGS, Event, Manifest, Ref, Unacceptable
from benchrun.observe import NO_SPEC, Sweep, SweptRun
from benchrun.plan import (
    NO_DEFAULTS,
    Owner,
    PlannedRun,
    RunDefaults,
    Variant,
    applied_to,
    attempts,
    load_points,
    planned_runs,
    planned_variants,
)


@dataclass(frozen=True, slots=True)
class NotCreated:
    """A run that could not be created when it was last tried."""

    name: str
    message: str = field(compare=False)
    """Reason in a sentence that names the run; may change with every answer."""
    curable: bool  # whether the same run may be created later; otherwise it stays invalid
    # whether a quota has no room for the run now, and may have later
    quota: bool = False
    # whether the API server, or a webhook that it calls, gave no answer
    retried: bool = False
    # time of the first failed attempt
    since: datetime | None = field(default=None, compare=False)
    # whether a run of an earlier sweep of the same name still exists
    leftover: bool = False


@dataclass(frozen=True, slots=True)
class TableWanted:
    """A table that the judge process is to make, and the runs that it is made of."""

    baseline: str  # name of the variant that the others are compared with
    runs: tuple[TabledRun, ...]  # runs that were measured to their end
    missing: tuple[tuple[str, str], ...]  # variants without figures, and why


@dataclass(frozen=True, slots=True)
class TableMade:
    wanted: TableWanted
    table: SweepTable | None
    problem: str = ""  # why there is no table


@dataclass(slots=True)
class SweepCollected:
    """In-memory state of a sweep that has not ended. All of it can be lost and read again."""

    measured: dict[str, BenchmarkRunStatus] = field(default_factory=dict)
    """`essence` of the measured runs, by uid."""
    table: TableMade | None = None  # the table that was made last
    conflict: str | None = None  # a foreign run with the name of one of the sweep's
    not_created: NotCreated | None = None


@dataclass(frozen=True, slots=True)
class SweepFacts:
    sweep: Sweep
    runs: Mapping[str, SweptRun]  # the runs that the sweep controls, by name
    collected: SweepCollected
    now: datetime
    # The platform's defaults, of which a sweep needs the labels to copy.
    run_defaults: RunDefaults = NO_DEFAULTS


@dataclass(frozen=True, slots=True)
class SweepDecision:
    """What to do now.

    It is done in this order: `cancel`, `create`, write the status, post `events`. With `read`,
    nothing else is done.
    """

    status: BenchmarkSweepStatus
    read: tuple[str, ...] = ()
    """Runs whose figures are to be read; a new decision follows."""
    table: TableWanted | None = None
    """The table to make; nothing waits for it, and a new decision follows when it is made."""
    cancel: tuple[Ref, ...] = ()
    create: tuple[Manifest, ...] = ()
    # whether the sweep is over: what memory holds of it is dropped
    forget: bool = False
    events: tuple[Event, ...] = ()


# Reasons of a failed run after which the next run of the variant would fail too, and reasons after
# which it may well succeed.
OF_THE_SETTINGS = SERVER_SETTINGS | {
    Reason.INVALID_SPEC,
    Reason.CHILD_INVALID,
    Reason.UNSCHEDULABLE,
}
FROM_OUTSIDE = {
    Reason.EVICTED,
    Reason.SERVER_RESTARTED,
    Reason.SERVER_GONE,
    Reason.CLIENT_GONE,
    Reason.SHARD_LOST,
}
_CODES_FROM_OUTSIDE = {Code.SERVER_RESTARTED, Code.COUNTERS_RESET}


@dataclass(frozen=True)
class SweepState:
    """A valid sweep and what is observed of it."""

    facts: SweepFacts
    spec: BenchmarkSweepSpec
    variants: tuple[Variant, ...]
    status: BenchmarkSweepStatus

    @property
    def owner(self) -> Owner:
        """Return the sweep as its runs name it, with the labels that these get.

        Among them is that of the queue which each of its runs waits in.
        """
        sweep = self.facts.sweep
        copied = dict(applied_to(sweep.labels, self.facts.run_defaults).labels)
        queues = {n: v for n, v in sweep.labels if n == names.LABEL_QUEUE}
        return Owner(
            namespace=sweep.namespace,
            name=sweep.name,
            uid=sweep.uid,
            labels=tuple({**copied, **queues}.items()),
        )

    @property
    def baseline(self) -> str:
        """Return the name of the variant that the others are compared with."""
        chosen = (
            named(self.spec.matrix, self.spec.baseline)
            if self.spec.baseline is not None
            else None
        )
        return chosen or self.variants[0].name

    @cached_property
    def planned(self) -> tuple[PlannedRun, ...]:
        """Return all runs, in the order in which they are started."""
        return planned_runs(self.owner.name, self.spec, self.variants)

    @cached_property
    def tried(self) -> dict[str, tuple[SweptRun, ...]]:
        """Return the existing attempts at each planned run, in order, by the planned run's name.

        The last attempt counts as the planned run.
        """
        facts = self.facts.runs
        names = {
            planned.name: [attempt.name for attempt in attempts(planned)]
            for planned in self.planned
        }
        return {
            name: tuple(facts[own] for own in tried if own in facts)
            for name, tried in names.items()
        }

    @cached_property
    def hopeless(self) -> frozenset[int]:
        """Return the numbers of the variants whose runs fail because of their settings."""
        tried = (
            (planned.variant.number, run)
            for planned in self.planned
            for run in self.tried[planned.name]
        )
        return frozenset(
            number for number, run in tried if run.reason in OF_THE_SETTINGS
        )

    @cached_property
    def next_attempts(self) -> dict[str, PlannedRun]:
        """Return the next attempt at each lost run that may be retried, by planned name."""
        each = (
            (planned.name, self._following(planned)) for planned in self.planned
        )
        return {
            name: following for name, following in each if following is not None
        }

    def _following(self, planned: PlannedRun) -> PlannedRun | None:
        tried = self.tried[planned.name]
        if not tried or planned.variant.number in self.hopeless:
            return None
        last = tried[-1]
        most = 1 + self.spec.max_retries
        if not _is_lost(last, self.facts.collected.measured.get(last.uid)):
            return None
        steps = pairwise(attempts(planned))
        return next(
            (
                after
                for before, after in steps
                if before.name == last.name and after.attempt <= most
            ),
            None,
        )

    def lost(self, variant: Variant | None = None) -> int:
        """Return how many runs of one variant, or of all, were lost and are or will be retried."""
        return sum(
            len(self.tried[planned.name]) - (planned.name not in self.next_attempts)
            for planned in self.planned
            if self.tried[planned.name]
            and (variant is None or variant.number == planned.variant.number)
        )

    @cached_property
    def _standing(self) -> dict[str, SweptRun]:
        """Return the last attempt at each planned run, by the planned run's name.

        Runs that are to be retried are left out.
        """
        return {
            name: tried[-1]
            for name, tried in self.tried.items()
            if tried and name not in self.next_attempts
        }

    @cached_property
    def in_order(self) -> tuple[SweptRun, ...]:
        """Return the existing runs in the order of the plan, each with its last attempt only.

        Runs that are to be retried are left out.
        """
        return tuple(self._standing.values())

    @cached_property
    def active(self) -> tuple[SweptRun, ...]:
        return tuple(run for run in self.in_order if not run.ended)

    @cached_property
    def ended(self) -> tuple[SweptRun, ...]:
        return tuple(run for run in self.in_order if run.ended)

    def of_variant(self, variant: Variant) -> tuple[SweptRun, ...]:
        own = (
            self._standing.get(planned.name)
            for planned in self.planned
            if planned.variant.number == variant.number
        )
        return tuple(run for run in own if run is not None)

    @cached_property
    def skipped(self) -> tuple[PlannedRun, ...]:
        """Return the runs that are not started, since their variant's settings made a run fail."""
        return tuple(
            p
            for p in self.planned
            if not self.tried[p.name] and p.variant.number in self.hopeless
        )

    @cached_property
    def waiting(self) -> tuple[PlannedRun, ...]:
        """Return the runs that are still to be started, in order.

        A lost run is replaced by the next attempt at it.
        """
        left_out = {
            planned.name for planned in self.skipped
        } | self._standing.keys()
        return tuple(
            self.next_attempts.get(p.name, p)
            for p in self.planned
            if p.name not in left_out
        )

    @property
    def to_start(self) -> tuple[PlannedRun, ...]:
        """Return the next runs to start: in order, within `spec.maxParallel` and the budget."""
        if self.spec.suspend:
            return ()
        places = max(0, self.spec.max_parallel - len(self.active))
        return tuple(
            planned
            for ahead, planned in enumerate(self.waiting[:places])
            if self._budget_has_room(ahead)
        )

    def _budget_has_room(self, ahead: int) -> bool:
        """Return whether the GPU seconds left suffice for one more run, at the mean cost so far.

        The active runs and `ahead` further runs are counted, too.
        """
        if (budget := self.spec.gpu_seconds_budget) is None:
            return True
        spent = sum(self.gpu_seconds)
        expected = fmean(self.gpu_seconds) if self.gpu_seconds else 0.0
        return (
            spent < budget
            and spent + expected * (len(self.active) + ahead + 1) <= budget
        )

    @cached_property
    def gpu_seconds(self) -> tuple[float, ...]:
        """Return the GPU seconds that each ended run held, lost runs included.

        Runs that held none are left out.
        """
        held = (
            run.held_seconds * planned.variant.gpus
            for planned in self.planned
            for run in self.tried[planned.name]
        )
        return tuple(seconds for seconds in held if seconds > 0)


def _is_lost(run: SweptRun, figures: BenchmarkRunStatus | None) -> bool:
    """Return whether the run ended with a pod that was taken away or restarted.

    Only the judge finds a restart in the last stage. So the `figures` of a Completed run are
    searched for such findings, too.
    """
    if run.state == "Failed":
        return run.reason in FROM_OUTSIDE
    if run.state != "Completed" or figures is None:
        return False
    return any(
        row.verdict == "Invalid"
        and not _CODES_FROM_OUTSIDE.isdisjoint(row.findings)
        for row in figures.results
    )


def accept_sweep(sweep: Sweep) -> tuple[BenchmarkSweepSpec, tuple[Variant, ...]]:
    """Return the checked spec and all its variants.

    Raise Unacceptable, which names the field's path.
    """
    try:
        spec = BenchmarkSweepSpec.model_validate(sweep.spec)
        made = planned_variants(spec)
    except ValidationError as error:
        raise Unacceptable(
            first_problem(error) if sweep.spec else NO_SPEC
        ) from error
    except ValueError as error:
        raise Unacceptable(str(error)) from error
    points = len(load_points(spec.template))
    if len(made) * points > MAX_ROWS:
        rows = f"{len(made)} variants x {points} load points = {len(made) * points} rows"
        raise Unacceptable(
            f"spec.template.workloads: {rows}; the limit is {MAX_ROWS}"
        )
    return spec, made
