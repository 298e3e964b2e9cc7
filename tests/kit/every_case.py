"""One test for a whole table of cases, where a test for each would only take longer.

A test takes some milliseconds beside what it does, and is collected by every process. A table of
hundreds of cheap cases is therefore one test, which tells all cases that fail.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

Check = Callable[..., None]


def every(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    *,
    ids: Callable[[Any], str] = repr,
) -> Callable[[Check], Check]:
    """Return a decorator that runs a test with every case, like pytest's parametrize.

    It takes the same arguments. The result is one test, without the parameters `names`.
    """
    fields = (names,) if isinstance(names, str) else names
    known = [_named(case, fields, ids) for case in cases]

    def decorated(test: Check) -> Check:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            check_all(
                {
                    name: functools.partial(test, **values, **fixtures)
                    for name, values in known
                }
            )

        signature = inspect.signature(test)
        rest = [p for p in signature.parameters.values() if p.name not in fields]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorated


def check_all(checks: Mapping[str, Callable[[], None]]) -> None:
    """Run all checks; raise AssertionError with the name and the words of each that fails."""
    assert checks, "a table without cases"
    failed = {}
    for name, check in checks.items():
        try:
            check()
        except (Exception, pytest.fail.Exception) as error:
            failed[name] = f"{type(error).__name__}: {error}"
    if failed:
        words = "\n".join(f"{name}: {why}" for name, why in failed.items())
        raise AssertionError(f"{len(failed)} of {len(checks)} cases:\n{words}")


def _named(
    case: Any, fields: tuple[str, ...], ids: Callable[[Any], str]
) -> tuple[str, dict[str, Any]]:
    """Return the name of a case, and its values by parameter."""
    if hasattr(case, "values") and hasattr(case, "id"):  # It is a pytest.param.
        values = case.values
        name = case.id
    else:
        values = (case,) if len(fields) == 1 else case
        name = None
    name = name or ", ".join(map(ids, values))
    return name, dict(zip(fields, values, strict=True))
