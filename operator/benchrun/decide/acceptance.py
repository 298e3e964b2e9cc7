"""Whether a spec can be acted on: what the API server checked is checked again, since an object may be older than a rule."""

from __future__ import annotations

from pydantic import ValidationError

from benchrun.api.problems import first_problem
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.observe.views import Run


class Unacceptable(ValueError):
    """The spec can't be acted on; the text names the field and what is wrong with it."""


def accept(run: Run) -> BenchmarkRunSpec:
    """The spec, checked. Raises Unacceptable naming the field's path."""
    try:
        return BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        raise Unacceptable(first_problem(error)) from error
