"""A second sync of what lies in Git changes nothing, neither before nor after the operator wrote
the status: no generation, no managed field, and no difference that a tool would show."""

import json
from collections.abc import Mapping, Sequence

import pytest
from kit.kubectl import Namespace, Object
from unit.api.examples import EXAMPLES
from unit.decide.recorded_statuses import recordings

SYNCS: Mapping[str, tuple[str, ...]] = {
    "server-side": ("--server-side", "--field-manager=tool"),
    "client-side": (),
}
"""Flux, and Argo CD where it is told so, apply on the server; Argo CD else on its own side."""
STATUS = {
    each.body["kind"]: each.status
    for each in recordings()
    if each.name in ("measured", "sweep measured")
}
OURS = [example for example in EXAMPLES if example.kind in STATUS]


def synced(
    namespace: Namespace, bodies: Sequence[Object], *how: str
) -> dict[str, Object]:
    """The objects in the cluster by name, managed fields included, once they were applied."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    namespace.kubectl("apply", "--filename=-", *how, stdin=text)
    found = json.loads(
        namespace.kubectl(
            "get",
            "--filename=-",
            "--output=json",
            "--show-managed-fields",
            stdin=text,
        )
    )
    for each in found["items"]:
        # The first write after the creation stores the status that the CRD gives by default: the
        # version changes once, and nothing else.
        del each["metadata"]["resourceVersion"]
    return {each["metadata"]["name"]: each for each in found["items"]}


@pytest.mark.parametrize("sync", SYNCS)
def test_a_second_sync_changes_nothing(namespace: Namespace, sync: str) -> None:
    how = SYNCS[sync]
    kinds = {
        f"example-{number}-{sync}": example for number, example in enumerate(OURS)
    }
    bodies = [
        {**example.body, "metadata": {**example.body["metadata"], "name": name}}
        for name, example in kinds.items()
    ]
    first = synced(namespace, bodies, *how)
    assert first.keys() == kinds.keys()
    assert synced(namespace, bodies, *how) == first
    for name, example in kinds.items():
        status = {"status": STATUS[example.kind]}
        namespace.patch(example.kind, name, status, subresource="status")
    written = synced(namespace, bodies, *how)
    for name, each in written.items():
        assert each["status"]["phase"] == "Completed"
        assert each["metadata"]["generation"] == 1
        assert each["spec"] == first[name]["spec"]
    # kubectl fails where it finds a difference.
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    namespace.kubectl("diff", "--filename=-", *how, stdin=text)
