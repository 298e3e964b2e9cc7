"""Which runs there are, what they are called, and in which order they are started: in blocks that hold every variant once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchrun.api.sweep.spec import MAX_RETRIES, BenchmarkSweepSpec
from benchrun.plan.sweep.variants import Variant

_VERSION = "benchrun.sweep-order/1"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a variant: one fresh server."""

    name: str
    variant: Variant
    replication: int
    """From 1."""
    attempt: int = 1
    """From 1: how often it was started on a fresh server."""


def run_name(sweep: str, variant: int, replication: int) -> str:
    """`<sweep>-v<variant>-r<replication>`: deterministic, of one run only, and at most 40 characters."""
    return f"{sweep}-v{variant}-r{replication}"


def attempts(planned: PlannedRun) -> tuple[PlannedRun, ...]:
    """The run as planned, and what it is called where it is measured anew: `-a2` and so on at the end of its name."""
    again = (
        replace(planned, name=f"{planned.name}-a{attempt}", attempt=attempt) for attempt in range(2, MAX_RETRIES + 2)
    )
    return (planned, *again)


def planned_runs(sweep: str, spec: BenchmarkSweepSpec, variants: Sequence[Variant]) -> tuple[PlannedRun, ...]:
    """All runs in the order in which they are started. Equal specs give equal orders, whatever the sweep is called."""
    return tuple(
        PlannedRun(run_name(sweep, variant.number, replication), variant, replication)
        for replication in range(1, spec.replications + 1)
        for variant in _block(spec, variants, replication)
    )


def _block(spec: BenchmarkSweepSpec, variants: Sequence[Variant], replication: int) -> Sequence[Variant]:
    if spec.order == "AsListed":
        return variants
    seed = str(spec.template.measurement.seed)
    return sorted(variants, key=lambda variant: _place(seed, str(replication), variant.name))


def _place(*parts: str) -> bytes:
    """A number to sort by: as good as random."""
    return hashlib.sha256("\x1f".join((_VERSION, *parts)).encode()).digest()
