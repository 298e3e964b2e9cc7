"""Sweeps and their runs, made of a few words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep import BenchmarkSweepSpec, BenchmarkSweepStatus, essence
from benchrun.decide.sweep.decide_sweep import decide
from benchrun.decide.sweep.sweep_state import (
    SweepCollected,
    SweepDecision,
    SweepFacts,
    TableMade,
    TableWanted,
)
from benchrun.judge.sweep.judged_sweep import sweep_table
from benchrun.observe import Run, Sweep, swept_runs
from unit.judge.comparison.sides import row, run
from unit.plan.specs import spec_body

Json = dict[str, Any]
NAMESPACE = "lab"
NAME = "seqs"
UID = "sweep-uid-1"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SCHEDULED = "2026-01-01T11:00:00Z"
RELEASED = "2026-01-01T11:01:40Z"
HELD_SECONDS = 100.0
"""How long every run of these tests holds its server."""


def variant(name: str, *args: str, **settings: Any) -> Json:
    return {"name": name, **({"args": list(args)} if args else {}), **settings}


TWO = [variant("base"), variant("wide", "--max-num-seqs=256")]
THREE = [*TWO, variant("wider", "--max-num-seqs=512")]


def sweep_body(variants: Sequence[Json] = tuple(TWO), **changes: Any) -> Json:
    """Build a spec with named variants; `changes` replace whole fields, None drops one."""
    body: Json = {
        "template": spec_body(),
        "matrix": {"variants": list(variants)},
        "order": "AsListed",
    }
    return {
        name: value for name, value in (body | changes).items() if value is not None
    }


def sweep_spec(
    variants: Sequence[Json] = tuple(TWO), **changes: Any
) -> BenchmarkSweepSpec:
    """Parse `sweep_body`."""
    return BenchmarkSweepSpec.model_validate(sweep_body(variants, **changes))


def axis(name: str, *values: str) -> Json:
    """Build an axis of a flag of that name."""
    return {
        "name": name,
        "values": [
            {"name": value, "args": [f"--{name}={value}"]} for value in values
        ],
    }


def a_run(
    name: str, *, uid: str = "", status: Json | None = None, cancel: bool = False
) -> Run:
    """Build a run of the sweep."""
    return Run(
        NAMESPACE,
        name,
        uid or f"uid-of-{name}",
        generation=1,
        spec={"cancel": cancel},
        status=status or {},
        sweep_uid=UID,
    )


def ended(
    kind: str = "Complete", reason: str = "Measured", message: str = "measured"
) -> Json:
    """Build the status of a run that is over: `Complete`, or `Failed` for a reason."""
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
    }
    return {
        "conditions": [condition],
        "scheduledTime": SCHEDULED,
        "serverReleasedTime": RELEASED,
        "completionTime": RELEASED,
    }


def failed(
    reason: str = "OutOfGPUMemory", message: str = "CUDA out of memory"
) -> Json:
    return ended("Failed", reason, message)


def measured(**figures: Any) -> BenchmarkRunStatus:
    """Build what memory keeps of a run with these figures."""
    return essence(run("any", [row(**figures)]).status)


def facts(
    spec: Json | None = None,
    runs: Sequence[Run] = (),
    *,
    status: BenchmarkSweepStatus | Json | None = None,
    now: datetime = NOW,
    figures: Mapping[str, BenchmarkRunStatus] | None = None,
    **collected: Any,
) -> SweepFacts:
    """Build the observed state of a sweep.

    Runs that completed have been read, all with typical figures, unless `figures` says otherwise.
    """
    if isinstance(status, BenchmarkSweepStatus):
        status = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    known = {each.uid: measured() for each in runs} if figures is None else figures
    sweep = Sweep(
        NAMESPACE,
        NAME,
        UID,
        generation=1,
        spec=spec or sweep_body(),
        status=status or {},
    )
    return SweepFacts(
        sweep,
        swept_runs(runs),
        SweepCollected(measured=dict(known), **collected),
        now,
    )


def decided(*arguments: Any, **options: Any) -> SweepDecision:
    """Decide on that observed state, with the table that the decision wants."""
    return decided_with_table(facts(*arguments, **options))


def decided_with_table(seen: SweepFacts) -> SweepDecision:
    """Decide; where a table is wanted, build it as the judge's process does and decide again."""
    decision = decide(seen)
    if decision.table is None:
        return decision
    return decide(
        replace(
            seen,
            collected=replace(seen.collected, table=made(seen, decision.table)),
        )
    )


def made(seen: SweepFacts, wanted: TableWanted) -> TableMade:
    """Build the table in this process."""
    spec = BenchmarkSweepSpec.model_validate(seen.sweep.spec)
    measured = seen.collected.measured
    missing = dict(wanted.missing)
    return TableMade(
        wanted,
        sweep_table(
            spec, wanted.runs, measured, baseline=wanted.baseline, missing=missing
        ),
    )


def created(decision: SweepDecision) -> list[str]:
    """Return the names of the runs to create."""
    return [manifest["metadata"]["name"] for manifest in decision.create]


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def condition(status: BenchmarkSweepStatus, type_: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found = next(c for c in status.conditions if c.type == type_)
    return found.status, found.reason
