"""What is wrong with a spec, in a line that names the field."""

from __future__ import annotations

from pydantic import ValidationError


def first_problem(error: ValidationError, *, root: str = "spec") -> str:
    """The first problem with its path below `root`, and how many more there are."""
    problem = error.errors(include_url=False, include_input=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    more = error.error_count() - 1
    return f"{root}{path}: {problem['msg']}" + (f" (and {more} more)" if more else "")
