"""A cluster in which a sweep's runs start and end as a test wills, and an operator that may die.

It may die at any step.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchrun.api import BenchmarkRunStatus, has_ended
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.decide.sweep.sweep_state import (
    SweepCollected,
    SweepDecision,
    SweepFacts,
)
from benchrun.observe import Run, Sweep, swept_runs
from unit.sweep.sweeps import (
    NAME,
    NAMESPACE,
    UID,
    a_run,
    decided_with_table,
    ended,
    failed,
    later,
    measured,
)

Json = dict[str, Any]


class OperatorDied(Exception):
    """The operator died in the middle of a reconcile."""


@dataclass
class SimulatedCluster:
    """What the API server holds."""

    spec: Json
    runs: dict[str, Run] = field(default_factory=dict)
    status: Json = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    """Every run that was ever created, in order."""
    most_at_once: int = 0

    def create(self, manifest: Json) -> None:
        """Create a run as POST would; one that exists stays unchanged."""
        name = manifest["metadata"]["name"]
        if name not in self.runs:
            self.created.append(name)
            self.runs[name] = a_run(name)
            self.most_at_once = max(self.most_at_once, len(self.active()))

    def cancel(self, name: str) -> None:
        self.runs[name] = replace(self.runs[name], spec={"cancel": True})

    def active(self) -> list[str]:
        return [
            name
            for name, run in self.runs.items()
            if not swept_runs([run])[name].ended
        ]

    def end(self, name: str, fate: str) -> None:
        """End a run: as cancelled if it was told to, otherwise by its fate.

        The fate is a reason of failure, or "" for a complete run.
        """
        cancelled = self.runs[name].spec["cancel"]
        status = (
            failed("Cancelled") if cancelled else failed(fate) if fate else ended()
        )
        self.runs[name] = replace(self.runs[name], status=status)

    @property
    def is_over(self) -> bool:
        return has_ended(
            BenchmarkSweepStatus.model_validate(self.status).conditions
        )


@dataclass
class SimulatedOperator:
    """One process that knows what it has read until it dies."""

    cluster: SimulatedCluster
    seconds: float = 0
    measured: dict[str, BenchmarkRunStatus] = field(default_factory=dict)

    def facts(self) -> SweepFacts:
        sweep = Sweep(
            NAMESPACE,
            NAME,
            UID,
            generation=1,
            spec=self.cluster.spec,
            status=dict(self.cluster.status),
        )
        collected = SweepCollected(measured=dict(self.measured))
        return SweepFacts(
            sweep,
            swept_runs(self.cluster.runs.values()),
            collected,
            later(self.seconds),
        )

    def decide(self) -> SweepDecision:
        decision = decided_with_table(self.facts())
        if decision.read:
            self.measured |= {
                self.cluster.runs[name].uid: figures(name) for name in decision.read
            }
            decision = decided_with_table(self.facts())
        assert decision.read == ()
        return decision

    def make_pass(self, *, dies_after: int | None = None) -> None:
        """Reconcile once; raise OperatorDied after `dies_after` steps."""
        decision = self.decide()
        steps = [
            *(partial(self.cluster.cancel, ref.name) for ref in decision.cancel),
            *(
                partial(self.cluster.create, manifest)
                for manifest in decision.create
            ),
            partial(self._write, decision),
        ]
        for number, step in enumerate(steps):
            if number == dies_after:
                raise OperatorDied
            step()

    def _write(self, decision: SweepDecision) -> None:
        self.cluster.status = decision.status.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )


def figures(name: str) -> BenchmarkRunStatus:
    """Return what a run measured: the same whenever it is read, another for each run."""
    return measured(OutputThroughput=1000.0 + sum(name.encode()))
