"""A manifest as YAML that reads as one would write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from benchrun.api.base import API_VERSION

AGAIN = "-again"
_OF_THAT_OBJECT = ("suspend", "cancel")
"""Said to one object while it went on."""


def manifest_text(kind: str, name: str, namespace: str, spec: Mapping[str, object], *, max_name: int) -> str:
    """The same spec under another name."""
    metadata = {"name": _another(name, max_name), **({"namespace": namespace} if namespace else {})}
    body: Mapping[str, object] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
    text: str = yaml.dump(body, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    return text


def asked_again(spec: Mapping[str, object], fields: Sequence[str]) -> dict[str, object]:
    """In the order of the reference, since the API server gives them by the alphabet; without what was said to that object."""
    kept = (name for name in spec if name not in _OF_THAT_OBJECT)
    return {name: spec[name] for name in sorted(kept, key=lambda each: _place(each, fields))}


def _place(field: str, fields: Sequence[str]) -> int:
    return fields.index(field) if field in fields else len(fields)


def _another(name: str, max_name: int) -> str:
    return name[: max_name - len(AGAIN)].rstrip("-.") + AGAIN


class _Plain(yaml.SafeDumper):
    """Without anchors: what is written twice reads better twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True
