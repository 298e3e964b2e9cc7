"""Whether a sweep's spec can be acted on, and what it comes to: all variants are made before any run is."""

from __future__ import annotations

from pydantic import ValidationError

from benchrun.api.problems import first_problem
from benchrun.api.sweep.matrix import named
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.status import MAX_ROWS
from benchrun.decide.acceptance import Unacceptable
from benchrun.observe.views import Sweep
from benchrun.plan.stages import cells
from benchrun.plan.sweep.variants import Variant, variants


def accept(sweep: Sweep) -> tuple[BenchmarkSweepSpec, tuple[Variant, ...]]:
    """The spec, checked, and its variants. Raises Unacceptable naming the field's path."""
    try:
        spec = BenchmarkSweepSpec.model_validate(sweep.spec)
        made = variants(spec)
    except ValidationError as error:
        raise Unacceptable(first_problem(error)) from error
    except ValueError as error:
        raise Unacceptable(str(error)) from error
    points = len(cells(spec.template))
    if len(made) * points > MAX_ROWS:
        raise Unacceptable(
            f"spec.template.workloads: {len(made)} variants x {points} load points = {len(made) * points} rows; "
            f"the limit is {MAX_ROWS}"
        )
    return spec, made


def baseline_of(spec: BenchmarkSweepSpec, variants: tuple[Variant, ...]) -> str:
    """Name of the variant that the others are compared with."""
    asked = named(spec.matrix, spec.baseline) if spec.baseline is not None else None
    return asked or variants[0].name
