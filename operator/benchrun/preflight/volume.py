"""How large a run is: stages, requests, and the least it takes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.plan.stages import PlannedStage, estimate, gpus, most_probe_stages, stages
from benchrun.preflight.remark import Remark, error, warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What is asked for."""

    runs: int = 1
    """More than one for a sweep, whose figures are those of all its runs together."""
    stages: int
    requests: int
    probe_stages: int
    """Of the stages, those that searches take at most: with their requests an upper bound."""
    gpus: int
    """Of one run; of a sweep the most that one has."""
    open_stages: int
    """Stages at a finite rate, whose length the spec tells."""
    least_seconds: int
    """That these take together."""
    warmup_seconds: int
    """The most that warming up takes."""
    gpu_seconds: int | None
    """The least that the GPUs are held for measuring; None: no load tells it, or there is no GPU."""


def volume_of(spec: BenchmarkRunSpec) -> Volume:
    """Count it."""
    told = estimate(spec)
    timed = [stage for stage in stages(spec, run_uid="") if stage.axis == "rate" and stage.value != "inf"]
    warmup = spec.measurement.warmup.auto
    return Volume(
        stages=told.stages,
        requests=told.requests,
        probe_stages=most_probe_stages(spec),
        gpus=gpus(spec),
        open_stages=len(timed),
        least_seconds=int(sum(map(_seconds, timed), Decimal(0)).to_integral_value(rounding=ROUND_CEILING)),
        warmup_seconds=warmup.max_seconds * len(spec.workloads) if warmup is not None else 0,
        gpu_seconds=told.gpu_seconds,
    )


def volume_remarks(spec: BenchmarkRunSpec, volume: Volume) -> list[Remark]:
    """Whether the run can end before its own deadline."""
    deadline, least = spec.run_deadline_seconds, volume.least_seconds
    field = "spec.runDeadlineSeconds"
    if deadline == 0 or least == 0:
        return []
    if least > deadline:
        return [error(field, f"{deadline} s, but the stages take {least} s at least: the run would be ended before")]
    rest = least + volume.warmup_seconds
    if rest > deadline:
        return [
            warning(field, f"{deadline} s; stages take {least} s at least and warm-up up to {volume.warmup_seconds} s")
        ]
    return []


def _seconds(stage: PlannedStage) -> Decimal:
    return Decimal(stage.requests) / Decimal(stage.value)
