"""The rules of a Role with a right taken away."""

from collections.abc import Iterable, Iterator
from typing import Any

Rule = dict[str, Any]


def without(rules: Iterable[Rule], resource: str, verb: str) -> list[Rule]:
    """Return the same rules without one verb on one resource."""
    return [less for rule in rules for less in _less(rule, resource, verb)]


def _less(rule: Rule, resource: str, verb: str) -> Iterator[Rule]:
    if resource not in rule["resources"] or verb not in rule["verbs"]:
        yield rule
        return
    others = [each for each in rule["resources"] if each != resource]
    verbs = [each for each in rule["verbs"] if each != verb]
    if others:
        yield {**rule, "resources": others}
    if verbs:
        yield {**rule, "resources": [resource], "verbs": verbs}
