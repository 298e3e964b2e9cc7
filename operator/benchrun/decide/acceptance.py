"""Whether a spec can be acted on: what the API server checked is checked again, since an object may be older than a rule."""

from __future__ import annotations

from pydantic import ValidationError

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.observe.views import Run


class Unacceptable(ValueError):
    """The spec can't be acted on; the text names the field and what is wrong with it."""


def accept(run: Run) -> BenchmarkRunSpec:
    """The spec, checked. Raises Unacceptable naming the field's path."""
    try:
        return BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        raise Unacceptable(_first_problem(error)) from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    more = error.error_count() - 1
    return f"spec{path}: {problem['msg']}" + (f" (and {more} more)" if more else "")
