"""Several objects in a manifest."""

from __future__ import annotations

from benchrun.preflight.manifest_checks import Known, check_objects
from unit.preflight.checks import manifest


def test_each_object_is_checked_as_its_kind() -> None:
    found = check_objects(
        [
            manifest(),
            manifest({"repeats": 0}),
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}},
            {"apiVersion": "benchrun.dev/v1alpha1", "kind": "BenchmarkRune", "metadata": {"name": "x"}},
        ],
        Known(),
    )
    assert [(each.kind, each.name, each.has_errors) for each in found] == [
        ("BenchmarkRun", "chat", False),
        ("BenchmarkRun", "chat", True),
        ("Secret", "hf", False),
        ("BenchmarkRune", "x", True),
    ]
