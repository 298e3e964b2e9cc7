"""The chart's templates about the objects of runs, from `benchrun.child_kinds`."""

import json
from collections.abc import Mapping
from itertools import chain

from benchrun.child_kinds import KINDS, ChildKind


def children_template(kinds: Mapping[str, ChildKind] = KINDS) -> str:
    """Return the templates of the operator's rights, and of what the admission policy looks at."""
    plain = [
        {"group": kind.group, "resources": [kind.plural]}
        for kind in kinds.values()
        if not kind.has_pods
    ]
    rules = chain.from_iterable(map(_rule, kinds.values()))
    return "\n".join(
        (
            "{{/* What the operator may do with the objects of runs, by kind. */}}",
            '{{- define "benchrun.childRules" -}}',
            *rules,
            "{{- end -}}",
            "",
            "{{/* The kinds of these objects that make no pods, as JSON. */}}",
            '{{- define "benchrun.plainChildren" -}}',
            json.dumps(plain),
            "{{- end -}}",
            "",
        )
    )


def _rule(kind: ChildKind) -> list[str]:
    """Return the lines of the rule for one kind.

    `get` of an object tells whose it is when its name is taken.
    """
    may = {
        "get": True,
        "list": True,
        "watch": kind.is_watched,
        "create": True,
        "delete": kind.is_deleted,
    }
    verbs = ", ".join(verb for verb, allowed in may.items() if allowed)
    rule = [
        f"- apiGroups: [{json.dumps(kind.group)}]",
        f"  resources: [{kind.plural}]",
        f"  verbs: [{verbs}]",
    ]
    if kind.switch is None:
        return rule
    group, _, value = kind.switch.partition(".")
    # An upgrade that reuses values of an older release has no such group.
    switch = f"(.Values.{group} | default dict).{value}"
    return [f"{{{{- if {switch} }}}}", *rule, "{{- end }}"]
