"""Kubernetes' label selectors and node affinity expressions."""

from contextlib import suppress

from benchrun.observe import untrusted_json as raw


def matches(selector: raw.Object, labels: raw.Object) -> bool:
    """Return whether a label selector matches these labels. An empty selector matches all."""
    exact = raw.mapping(selector.get("matchLabels"))
    return all(labels.get(key) == value for key, value in exact.items()) and all(
        holds(each, labels)
        for each in raw.mappings(selector.get("matchExpressions"))
    )


def holds(expression: raw.Object, labels: raw.Object) -> bool:
    """Return whether labels meet an expression of a selector or a node affinity.

    Labels never meet an expression with an unknown operator.
    """
    key = raw.text(expression.get("key"), 512)
    given = expression.get("values")
    values = given if isinstance(given, list) else []
    value = labels.get(key)
    match expression.get("operator"):
        case "In":
            return key in labels and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt" as which:
            with suppress(ValueError, IndexError):
                apart = int(str(value)) - int(str(values[0]))
                return apart > 0 if which == "Gt" else apart < 0
    return False
