"""One pass's facts about a sweep, worked out once from the runs that exist."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from benchrun.api.base import KIND
from benchrun.api.conditions import Reason
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.decide.decision import Ref
from benchrun.decide.sweep.decision import SweepWorld
from benchrun.observe.swept_runs import SweptRun
from benchrun.plan.metadata import Owner
from benchrun.plan.sweep.order import PlannedRun, planned_runs
from benchrun.plan.sweep.variants import Variant

OF_THE_SETTINGS = frozenset(
    {
        Reason.USAGE_ERROR,
        Reason.INVALID_ARGUMENT,
        Reason.MODEL_NOT_FOUND,
        Reason.MODEL_GATED,
        Reason.OUT_OF_GPU_MEMORY,
        Reason.KV_CACHE_TOO_SMALL,
        Reason.INVALID_SPEC,
        Reason.CHILD_INVALID,
    }
)
"""Why a run failed, where the next one of the same variant would fail too."""


@dataclass(frozen=True)
class SweepSituation:
    """A valid sweep and its world."""

    world: SweepWorld
    spec: BenchmarkSweepSpec
    variants: tuple[Variant, ...]
    status: BenchmarkSweepStatus

    @property
    def owner(self) -> Owner:
        """The sweep as an owner."""
        sweep = self.world.sweep
        return Owner(namespace=sweep.namespace, name=sweep.name, uid=sweep.uid)

    @cached_property
    def planned(self) -> tuple[PlannedRun, ...]:
        """All runs, in the order in which they are started."""
        return planned_runs(self.owner.name, self.spec, self.variants)

    @cached_property
    def runs(self) -> dict[str, SweptRun]:
        """Those of the plan that exist, by name."""
        names = {run.name for run in self.planned}
        return {name: run for name, run in self.world.runs.items() if name in names}

    @cached_property
    def active(self) -> tuple[SweptRun, ...]:
        """Runs that have not ended, in the order of the plan."""
        return tuple(run for run in self.in_order if not run.ended)

    @cached_property
    def in_order(self) -> tuple[SweptRun, ...]:
        """Runs that exist, in the order of the plan."""
        return tuple(self.runs[planned.name] for planned in self.planned if planned.name in self.runs)

    @cached_property
    def ended(self) -> tuple[SweptRun, ...]:
        """Runs that are over, in the order of the plan."""
        return tuple(run for run in self.in_order if run.ended)

    def of_variant(self, variant: Variant) -> tuple[SweptRun, ...]:
        """A variant's runs that exist, in the order of the plan."""
        own = [planned.name for planned in self.planned if planned.variant.number == variant.number]
        return tuple(self.runs[name] for name in own if name in self.runs)

    @cached_property
    def skipped(self) -> tuple[PlannedRun, ...]:
        """Runs that are not worth starting: an earlier one of the variant failed by its settings."""
        hopeless = {v.number for v in self.variants if any(r.reason in OF_THE_SETTINGS for r in self.of_variant(v))}
        return tuple(p for p in self.planned if p.name not in self.runs and p.variant.number in hopeless)

    @cached_property
    def waiting(self) -> tuple[PlannedRun, ...]:
        """Runs that are still to be started, in order."""
        left_out = {planned.name for planned in self.skipped}
        return tuple(p for p in self.planned if p.name not in self.runs and p.name not in left_out)

    @cached_property
    def gpu_seconds(self) -> tuple[float, ...]:
        """What each run held that has ended and held anything."""
        gpus = {planned.name: planned.variant.gpus for planned in self.planned}
        held = (run.held_seconds * gpus[run.name] for run in self.ended)
        return tuple(seconds for seconds in held if seconds > 0)

    def ref(self, run: SweptRun) -> Ref:
        """The run as something to act on."""
        return Ref(KIND, self.owner.namespace, run.name, run.uid)
