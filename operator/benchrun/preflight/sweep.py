"""A BenchmarkSweep before it is applied: each of its variants, checked as the run that it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from benchrun.api.structural import Schema
from benchrun.api.sweep.crd import sweep_schema
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.plan.sweep.variants import Variant, variants
from benchrun.preflight.remark import Remark, error, note, warning
from benchrun.preflight.run import Checked, Known, spec_remarks
from benchrun.preflight.schema import Object, object_remarks, spec_of
from benchrun.preflight.volume import Volume, volume_of

MAX_NAMED = 3
"""Variants named in a sentence; of more their number is told."""
_ARGUMENT = re.compile(r"spec\.(?:server|offline)\.args\[(\d+)\]")


@cache
def schema_of_all() -> Schema:
    """The schema of a BenchmarkSweep; it takes longer to make than all the rest."""
    return sweep_schema()


def check_sweep(body: Object, known: Known) -> Checked:
    """Check one object of kind BenchmarkSweep."""
    outside = object_remarks(body, schema_of_all())
    spec, problems = spec_of(body, BenchmarkSweepSpec)
    if spec is None:
        return Checked((*outside, *problems), None)
    try:
        found = variants(spec)
    except ValueError as problem:
        return Checked((*outside, error("spec.matrix", str(problem).removeprefix("spec.matrix: "))), None)
    volumes = [volume_of(variant.spec) for variant in found]
    whole = _together(volumes, spec.replications)
    remarks = [*outside, *_replications(spec), *_budget(spec, whole), *_of_variants(spec, found, volumes, known)]
    return Checked(tuple(remarks), whole)


def _replications(spec: BenchmarkSweepSpec) -> list[Remark]:
    if spec.replications > 1:
        return []
    return [
        note(
            "spec.replications", "1: variants are compared within one server each; 3 tell what servers differ by anyway"
        )
    ]


def _budget(spec: BenchmarkSweepSpec, volume: Volume) -> list[Remark]:
    budget, least = spec.gpu_seconds_budget, volume.gpu_seconds
    if budget is None or least is None or least <= budget:
        return []
    return [
        warning(
            "spec.gpuSecondsBudget", f"{budget:,}, but measuring alone takes {least:,}: not all runs will be started"
        )
    ]


def _of_variants(
    spec: BenchmarkSweepSpec, found: Sequence[Variant], volumes: Sequence[Volume], known: Known
) -> Iterator[Remark]:
    """What is said of several variants is said once, with their names where it does not hold for all."""
    told: dict[Remark, list[str]] = {}
    for variant, volume in zip(found, volumes, strict=True):
        own = known if variant.spec.model == spec.template.model else replace(known, shape=None, weights_bytes=None)
        for remark in spec_remarks(variant.spec, volume, own):
            told.setdefault(replace(remark, path=_path(remark.path, spec)), []).append(variant.name)
    for remark, names in told.items():
        yield remark if len(names) == len(found) else replace(remark, text=f"{_named(names)}: {remark.text}")


def _path(path: str, spec: BenchmarkSweepSpec) -> str:
    """Where it is written: in the template, or, for arguments that a variant adds, in the matrix."""
    argument = _ARGUMENT.match(path)
    template = spec.template.started
    if argument is not None and template is not None and int(argument[1]) >= len(template.args):
        return "spec.matrix"
    return path.replace("spec", "spec.template", 1)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def _together(volumes: Sequence[Volume], replications: int) -> Volume:
    seconds = [volume.gpu_seconds for volume in volumes if volume.gpu_seconds is not None]
    return Volume(
        runs=len(volumes) * replications,
        stages=replications * sum(volume.stages for volume in volumes),
        requests=replications * sum(volume.requests for volume in volumes),
        probe_stages=replications * sum(volume.probe_stages for volume in volumes),
        gpus=max(volume.gpus for volume in volumes),
        open_stages=replications * sum(volume.open_stages for volume in volumes),
        least_seconds=replications * sum(volume.least_seconds for volume in volumes),
        warmup_seconds=replications * sum(volume.warmup_seconds for volume in volumes),
        gpu_seconds=replications * sum(seconds) if seconds else None,
    )
