"""A manifest checked in one call, and the remarks about its fields."""

from collections.abc import Mapping
from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.preflight.manifest_checks import Checked, Known, check_run
from benchrun.preflight.remark import Level
from unit.api.spec_cases import minimal

NOTHING_KNOWN = Known()


def spec(changes: Mapping[str, Any] | None = None) -> BenchmarkRunSpec:
    return BenchmarkRunSpec.model_validate(minimal(changes))


def manifest(
    changes: Mapping[str, Any] | None = None, **outside: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "chat"},
        "spec": minimal(changes),
        **outside,
    }


def checked(
    changes: Mapping[str, Any] | None = None,
    *,
    known: Known = NOTHING_KNOWN,
    **outside: Any,
) -> Checked:
    """Check the minimal object with these changes."""
    return check_run(manifest(changes, **outside), known)


def messages(found: Checked, level: Level) -> dict[str, str]:
    """Return the remarks of a level, by field."""
    return {
        remark.path: remark.text
        for remark in found.remarks
        if remark.level == level
    }
