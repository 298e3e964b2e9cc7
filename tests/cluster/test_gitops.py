"""A second sync of what lies in Git changes nothing, neither before nor after the operator wrote
the status: no generation, no managed field, and no difference that a tool would show."""

import json
from collections.abc import Mapping

import pytest
from kit.kubectl import Namespace, Object
from unit.api.examples import EXAMPLES, Example
from unit.decide.recorded_statuses import RECORDED

SYNCS: Mapping[str, tuple[str, ...]] = {
    "server-side": ("--server-side", "--field-manager=tool"),
    "client-side": (),
}
"""Flux, and Argo CD where it is told so, apply on the server; Argo CD else on its own side."""
STATUS = {
    each.body["kind"]: each.status
    for each in RECORDED
    if each.name in ("measured", "sweep measured")
}
OURS = [example for example in EXAMPLES if example.kind in STATUS]


def synced(namespace: Namespace, body: Object, *how: str) -> Object:
    """The object in the cluster, managed fields included, once it was applied."""
    text = json.dumps(body)
    namespace.kubectl("apply", "--filename=-", *how, stdin=text)
    found: Object = json.loads(
        namespace.kubectl(
            "get",
            "--filename=-",
            "--output=json",
            "--show-managed-fields",
            stdin=text,
        )
    )
    return found


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("example", OURS, ids=lambda each: each.name)
def test_a_second_sync_changes_nothing(
    namespace: Namespace, example: Example, sync: str
) -> None:
    how = SYNCS[sync]
    name = f"example-{OURS.index(example)}-{sync}"
    body = {**example.body, "metadata": {**example.body["metadata"], "name": name}}
    first = synced(namespace, body, *how)
    assert synced(namespace, body, *how) == first
    status = {"status": STATUS[example.kind]}
    namespace.patch(example.kind, name, status, subresource="status")
    written = synced(namespace, body, *how)
    assert written["status"]["phase"] == "Completed"
    assert written["metadata"]["generation"] == 1
    assert written["spec"] == first["spec"]
    # kubectl fails where it finds a difference.
    namespace.kubectl("diff", "--filename=-", *how, stdin=json.dumps(body))
    namespace.delete(example.kind, name)
