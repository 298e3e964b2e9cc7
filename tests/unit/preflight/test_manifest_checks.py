"""Several objects in a manifest."""

from benchrun.preflight.manifest_checks import Known, check_object
from unit.preflight.checks import manifest


def test_each_object_is_checked_as_its_kind() -> None:
    bodies = [
        manifest(),
        manifest({"repeats": 0}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}},
        {"apiVersion": "benchrun.dev/v1alpha1", "kind": "BenchmarkRune", "metadata": {"name": "x"}},
    ]
    found = [check_object(body, Known()) for body in bodies]
    assert [(each.kind, each.name, each.has_errors) for each in found] == [
        ("BenchmarkRun", "chat", False),
        ("BenchmarkRun", "chat", True),
        ("Secret", "hf", False),
        ("BenchmarkRune", "x", True),
    ]
