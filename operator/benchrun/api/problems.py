"""What is wrong with a spec, in a line that names the field."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

_BRANCHES = ("int", "str", "constrained-int", "constrained-str")
"""How pydantic calls the members of a union of plain types."""


def first_problem(error: ValidationError, *, root: str = "spec") -> str:
    """The first problem with its path below `root`, and how many more there are."""
    problem = error.errors(include_url=False, include_input=False)[0]
    parts = without_branch(problem["loc"])
    # A rule is about a field below the object that has it.
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts) + problem.get("ctx", {}).get(
        "path", ""
    )
    more = error.error_count() - 1
    return f"{root}{path}: {problem['msg']}" + (f" (and {more} more)" if more else "")


def without_branch(location: Sequence[int | str]) -> Sequence[int | str]:
    """Of a union of plain types pydantic tries each, and names the one it tried: no field."""
    return location[:-1] if location and location[-1] in _BRANCHES else location
