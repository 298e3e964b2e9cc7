"""Names of children fit wherever Kubernetes puts them."""

import re

import pytest
from benchrun.names import MAX_RUN_NAME, group_name
from benchrun.plan import (
    Manifest,
    Owner,
    TimelinePart,
    stage_config_map,
    timeline_config_map,
)
from unit.measure.records import sealed_bytes
from unit.plan.objects import objects, of_kind
from unit.plan.specs import UID, spec, workload

LONGEST = Owner(namespace="n" * 63, name="r" * MAX_RUN_NAME, uid=UID)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
JOB_POD_SUFFIX = len("-0")


def every_object(owner: Owner) -> list[Manifest]:
    talk = workload(
        "w" * 40,
        dataset={"shareGPT": {"file": {"configMap": {"name": "c", "key": "k"}}}},
    )
    stored = stage_config_map(owner, sealed_bytes(255), timeline=None)
    return [
        *objects(owner, spec(workloads=[talk])),
        stored,
        timeline_config_map(owner, chunk=999, timeline=TimelinePart(b"", 0.0)),
    ]


def test_names_of_the_longest_run_are_dns_labels() -> None:
    assert [
        m["metadata"]["name"]
        for m in every_object(LONGEST)
        if not DNS_LABEL.fullmatch(m["metadata"]["name"])
    ] == []


def test_the_clients_host_name_is_a_dns_label() -> None:
    assert (
        len(of_kind(objects(LONGEST, spec()), "Job")["metadata"]["name"])
        + JOB_POD_SUFFIX
        <= 63
    )


def test_group_names_leave_room_for_pod_names_and_are_unique() -> None:
    """A StatefulSet's name, which adds `-15` at most, stands in a label with ten more digits behind
    a hyphen."""
    name = group_name(LONGEST.name, UID)
    namesakes = group_name(LONGEST.name, f"{UID}-2")
    assert len(f"{name}-15-0123456789") <= 63
    assert DNS_LABEL.fullmatch(name)
    assert name != namesakes


def test_labels_of_the_longest_run_are_label_values() -> None:
    labels = [
        value
        for m in every_object(LONGEST)
        for value in m["metadata"]["labels"].values()
    ]
    assert [value for value in labels if not LABEL_VALUE.fullmatch(value)] == []


def test_volumes_of_the_longest_workload_are_dns_labels() -> None:
    volumes = of_kind(every_object(LONGEST)[:4], "Job")["spec"]["template"]["spec"][
        "volumes"
    ]
    assert [v["name"] for v in volumes if not DNS_LABEL.fullmatch(v["name"])] == []


@pytest.mark.parametrize("run", ["vllm", "vllm-server", "a"])
def test_no_service_makes_a_variable_that_vllm_reads(run: str) -> None:
    """A Service `vllm-x` would put VLLM_X_PORT into every pod beside it."""
    service = of_kind(
        objects(Owner(namespace="lab", name=run, uid=UID), spec()), "Service"
    )
    assert not service["metadata"]["name"].startswith("vllm")


def test_no_two_objects_share_kind_and_name() -> None:
    identities = [(m["kind"], m["metadata"]["name"]) for m in every_object(LONGEST)]
    assert len(set(identities)) == len(identities)


def test_the_client_looks_for_the_service_that_is_made() -> None:
    manifests = objects(LONGEST, spec())
    service = of_kind(manifests, "Service")["metadata"]
    plan = of_kind(manifests, "ConfigMap")["data"]["plan.json"]
    assert f"http://{service['name']}.{service['namespace']}.svc:8000" in plan
