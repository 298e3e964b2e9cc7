"""Decisions in a few words, for whole comparisons."""

from benchrun.api import BenchmarkRunStatus, ConditionType, find_condition
from benchrun.decide import Decision


def applied(decision: Decision) -> list[str]:
    """Return what is applied, in order: `Job client`, `ConfigMap stage 0`."""
    return [
        _manifest_words(m["kind"], m["metadata"]["labels"]) for m in decision.apply
    ]


def deleted(decision: Decision) -> list[str]:
    """Return the kinds of what is deleted, in order."""
    return [ref.kind for ref in decision.delete]


def standing(status: BenchmarkRunStatus, *types: ConditionType) -> dict[str, str]:
    """Return conditions by type as `status (reason)`, or `absent`."""
    found = {type_: find_condition(status.conditions, type_) for type_ in types}
    return {
        type_: f"{c.status} ({c.reason})" if c is not None else "absent"
        for type_, c in found.items()
    }


def _manifest_words(kind: str, labels: dict[str, str]) -> str:
    role = labels["benchrun.dev/role"]
    sequence = labels.get("benchrun.dev/sequence")
    return f"{kind} {role}" if sequence is None else f"{kind} {role} {sequence}"
