"""Whether the spec of a run or a sweep can be acted on: what the API server checked is checked again, since an object may be older
than a rule."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError

from benchrun.api.problems import first_problem
from benchrun.api.reading import without
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.status import MAX_ROWS
from benchrun.observe.views import Run, Sweep
from benchrun.plan.stages import cells
from benchrun.plan.sweep.variants import Variant, variants


class Unacceptable(ValueError):
    """The spec can't be acted on; the text names the field and what is wrong with it."""


def accept(run: Run, *, begun: bool = False) -> BenchmarkRunSpec:
    """The spec, checked. Raises Unacceptable naming the field's path.

    `begun`: the run has a server or records. What they are made of is settled, so that a field of a newer operator, which made
    them, is left out; before, a server without it would be another experiment.
    """
    try:
        return BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        if begun and all(each["type"] == "extra_forbidden" for each in error.errors(include_url=False)):
            return accept(replace(run, spec=without(run.spec, [each["loc"] for each in error.errors()])))
        raise Unacceptable(first_problem(error)) from error


def accept_sweep(sweep: Sweep) -> tuple[BenchmarkSweepSpec, tuple[Variant, ...]]:
    """The spec, checked, and its variants: all are made before any run is. Raises Unacceptable naming the field's path."""
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
