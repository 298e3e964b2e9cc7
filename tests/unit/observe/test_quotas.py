"""What is read of Kueue's Workloads and ResourceFlavors, whatever they hold."""

from typing import Any

import pytest
from benchrun.child_kinds import WORKLOAD
from benchrun.observe import Flavor, Quota, child_of, flavor_of, labels_of
from benchrun.observe.quotas import quota_of

RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}
ADMITTED = {"type": "Admitted", "status": "True", "reason": "Admitted"}
ASSIGNED = [
    {"name": "server", "flavors": {"nvidia.com/gpu": "h200", "cpu": "h200"}},
    {"name": "client", "flavors": {"cpu": "cpu"}},
]


def said(*conditions: dict[str, Any], assigned: Any = None) -> Quota:
    admission = {"clusterQueue": "all", "podSetAssignments": assigned}
    return quota_of(
        {"status": {"conditions": [*conditions], "admission": admission}}
    )


def test_a_quota_needs_both_conditions() -> None:
    held = said(RESERVED, ADMITTED, assigned=ASSIGNED)
    assert held.is_admitted
    assert dict(held.flavors) == {"server": ("h200",), "client": ("cpu",)}
    for one in (RESERVED, ADMITTED):
        assert not said(one, assigned=ASSIGNED).is_admitted
        assert said(one, assigned=ASSIGNED).flavors == ()


@pytest.mark.parametrize("first", [True, False])
def test_evicted_counts_whatever_admitted_says(first: bool) -> None:
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "by another",
    }
    order = (
        (evicted, RESERVED, ADMITTED) if first else (RESERVED, ADMITTED, evicted)
    )
    quota = said(*order, assigned=ASSIGNED)
    assert (quota.is_admitted, quota.evicted) == (False, "Preempted: by another")
    assert not quota.is_final


@pytest.mark.parametrize(
    ("condition", "is_final"),
    [
        (("Evicted", "Preempted"), False),
        (("Evicted", "PodsReadyTimeout"), False),
        (("Evicted", "Deactivated"), True),
        (("Evicted", "DeactivatedDueToRequeuingLimitExceeded"), True),
        (("Finished", "Succeeded"), True),
    ],
)
def test_what_kueue_would_not_queue_again_is_final(
    condition: tuple[str, str], is_final: bool
) -> None:
    type_, reason = condition
    quota = said({"type": type_, "status": "True", "reason": reason})
    assert (quota.evicted, quota.is_final) == (reason, is_final)


def test_an_eviction_that_is_over_counts_for_nothing() -> None:
    over = {"type": "Evicted", "status": "False", "reason": "QuotaReserved"}
    assert said(over, RESERVED, ADMITTED, assigned=ASSIGNED).is_admitted


def test_why_there_is_no_quota_is_what_kueue_says() -> None:
    full = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": "full",
    }
    checks = {"type": "Admitted", "status": "False", "message": "a check waits"}
    assert said(full).waits == "full"
    assert said(RESERVED, checks).waits == "a check waits"
    assert said().waits == ""


HOSTILE: list[Any] = [
    None,
    7,
    "True",
    [],
    {},
    {"conditions": {"type": "Admitted"}},
    {"conditions": [RESERVED, ADMITTED], "admission": [1]},
    {"conditions": [RESERVED, ADMITTED], "admission": {"podSetAssignments": {}}},
    {"conditions": [{"type": "Evicted", "status": True}, None, 3]},
    {"conditions": [{"type": "Evicted", "status": "True", "reason": ["x"]}]},
]


@pytest.mark.parametrize("status", HOSTILE)
def test_no_status_raises(status: Any) -> None:
    assert isinstance(quota_of({"status": status}), Quota)


def test_what_is_read_of_a_status_is_bounded() -> None:
    many = [
        {"name": "n" * 9999, "flavors": {f"r{n}": f"f{n}" for n in range(999)}}
    ] * 999
    wordy = {"type": "QuotaReserved", "status": "False", "message": "m" * 99_999}
    held = said(RESERVED, ADMITTED, assigned=many)
    assert len(held.flavors) == 8
    assert {len(of) for _, of in held.flavors} == {16}
    assert {len(name) for name, _ in held.flavors} == {253}
    assert len(said(wordy).waits) == 2048


@pytest.mark.parametrize("name", ["..", "a/b", "", "A", "a?b", 7, "../pods"])
def test_only_names_of_objects_are_taken_for_flavours(name: Any) -> None:
    held = said(
        RESERVED, ADMITTED, assigned=[{"name": "s", "flavors": {"cpu": name}}]
    )
    assert held.flavors == (("s", ()),)


def test_a_flavour_is_its_labels_and_tolerations() -> None:
    body = {
        "metadata": {"name": "h200"},
        "spec": {
            "nodeLabels": {"b": "2", "a": "1"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}, 3],
        },
    }
    assert flavor_of(body) == Flavor(
        "h200",
        (("a", "1"), ("b", "2")),
        ((("key", "gpu"), ("operator", "Exists")),),
    )


@pytest.mark.parametrize("spec", [None, 7, {"nodeLabels": [], "tolerations": {}}])
def test_no_flavour_raises(spec: Any) -> None:
    assert flavor_of({"metadata": {"name": "x"}, "spec": spec}) == Flavor("x")


def test_only_a_workload_has_a_quota() -> None:
    body = {
        "metadata": {"name": "x"},
        "status": {"conditions": [RESERVED, ADMITTED]},
    }
    assert child_of(WORKLOAD, body).quota == Quota(is_admitted=True)
    assert child_of("Job", body).quota is None


def test_the_label_of_a_queue_is_never_one_label_too_many() -> None:
    labels = {f"a{n:03d}": "" for n in range(99)}
    labels["kueue.x-k8s.io/queue-name"] = "gpus"
    read = labels_of({"metadata": {"labels": labels}})
    assert len(read) == 32
    assert dict(read)["kueue.x-k8s.io/queue-name"] == "gpus"
    assert list(read) == sorted(read)
