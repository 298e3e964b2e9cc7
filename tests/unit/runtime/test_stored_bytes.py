"""What results take in etcd, whatever happens to the objects and whatever their annotations say."""

from typing import Any

from benchrun import names
from benchrun.observe import Key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.stored_bytes import MAX_NAMESPACES, MAX_OBJECT_BYTES, OTHERS
from unit.runtime.bodies import NAMESPACE, run_body, stage_body


def stored(indexes: Indexes) -> dict[str, float]:
    """The series by namespace."""
    [metric] = indexes.stored.collect()
    return {each.labels["namespace"]: each.value for each in metric.samples}


def sized(
    size: object, version: int = 1, namespace: str = NAMESPACE
) -> dict[str, Any]:
    """The ConfigMap of a record that says to have so many bytes."""
    body = stage_body(0)
    meta = body["metadata"]
    meta |= {
        "namespace": namespace,
        "uid": f"uid-{namespace}",
        "resourceVersion": str(version),
    }
    meta.setdefault("annotations", {})[names.ANNOTATION_BYTES] = str(size)
    return body


def test_bytes_come_and_go_with_the_objects() -> None:
    indexes = Indexes()
    assert stored(indexes) == {}
    indexes.learnt("ConfigMap", sized(1000))
    assert stored(indexes) == {NAMESPACE: 1000}
    indexes.learnt("ConfigMap", sized(1000))
    indexes.learnt("ConfigMap", sized(300, 2))
    assert stored(indexes) == {NAMESPACE: 300}
    name = sized(300)["metadata"]["name"]
    indexes.drop(Key("ConfigMap", NAMESPACE, name), f"uid-{NAMESPACE}")
    assert stored(indexes) == {}


def test_they_go_with_their_run() -> None:
    indexes = Indexes()
    run = run_body()
    indexes.heard(names.KIND, run, deleted=False)
    indexes.learnt("ConfigMap", sized(1000))
    indexes.heard(names.KIND, run, deleted=True)
    assert stored(indexes) == {}


def test_what_an_annotation_says_is_bounded() -> None:
    indexes = Indexes()
    indexes.learnt("ConfigMap", sized(10**14))
    assert stored(indexes) == {NAMESPACE: MAX_OBJECT_BYTES}
    indexes.learnt("ConfigMap", sized("many", 2))
    assert stored(indexes) == {}


def test_only_the_largest_namespaces_have_a_series_of_their_own() -> None:
    indexes = Indexes()
    for number in range(MAX_NAMESPACES + 2):
        indexes.learnt("ConfigMap", sized(number + 1, namespace=f"n-{number}"))
    found = stored(indexes)
    assert len(found) == MAX_NAMESPACES + 1
    assert found[OTHERS] == 1 + 2
    assert "n-0" not in found
