"""What the API server says to a manifest: what it would store, or which fields it refuses and
why."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from kit.kubectl import CommandFailed, Namespace, Object


def create(namespace: Namespace, obj: Object, *, dry_run: bool = True) -> Object:
    """The object as the API server would store it (or does)."""
    mode = ["--dry-run=server"] if dry_run else []
    found: Object = json.loads(
        namespace.kubectl(
            "create", "--filename=-", "--output=json", *mode, stdin=json.dumps(obj)
        )
    )
    return found


def refused_pod(namespace: Namespace, pod: Mapping[str, Any], **labels: str) -> str:
    """What the API server says against the spec of a pod; nothing where it admits it."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any", "labels": labels},
        "spec": dict(pod),
    }
    try:
        create(namespace, manifest)
    except CommandFailed as error:
        return str(error)
    return ""


def edited(
    namespace: Namespace, stored: Object, patch: Mapping[str, Any]
) -> Object:
    """The spec of a stored object as it would be after a merge patch."""
    arguments = [
        "--type=merge",
        f"--patch={json.dumps({'spec': patch})}",
        "--dry-run=server",
        "--output=json",
    ]
    spec: Object = json.loads(
        namespace.kubectl(
            "patch", stored["kind"], stored["metadata"]["name"], *arguments
        )
    )["spec"]
    return spec


def refusals(error: CommandFailed) -> dict[str, str]:
    """What the API server found wrong: the path of a field, and what is said of it. Unknown fields
    it names before all else."""
    unknown = re.findall(r'unknown field "([^"]+)"', str(error))
    if unknown:
        return dict.fromkeys(unknown, "unknown field")
    listed = re.split(
        r"^\* ", str(error).partition(" is invalid: ")[2], flags=re.MULTILINE
    )
    pairs = (entry.strip().partition(": ") for entry in listed if entry.strip())
    # One entry says that CEL was not run because the types were wrong already.
    return {path: said for path, _, said in pairs if path != "<nil>"}


def assert_refused_at(
    namespace: Namespace, obj: Object, *, path: str, message: str | None
) -> None:
    """It is refused at that field and nowhere else; with a message, in these words alone."""
    with pytest.raises(CommandFailed) as refused:
        create(namespace, obj)
    found = refusals(refused.value)
    assert path in found, found
    # A list may be refused along with its entry; nothing else is said, least of all that a rule
    # could not be evaluated.
    assert all(path.startswith(other) for other in found), found
    assert "evaluating rule" not in str(refused.value)
    if message is not None:
        assert found.keys() == {path}, found
        assert message in found[path], found


def assert_immutable(
    namespace: Namespace,
    stored: Object,
    *,
    field: str,
    patch: Mapping[str, Any],
    what: str,
) -> None:
    """The patch is refused at the field, with the way out: a new object."""
    with pytest.raises(CommandFailed) as refused:
        edited(namespace, stored, patch)
    said = refusals(refused.value)[f"spec.{field}"]
    assert f"spec.{field} is immutable; create a new {what}" in said, said
