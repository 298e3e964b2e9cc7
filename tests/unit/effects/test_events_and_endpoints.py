"""What is made of a run's event, and what is read out of EndpointSlices."""

from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.decide import Event
from benchrun.effects import (
    MAX_ENDPOINTS,
    addresses_of,
    addresses_of_pods,
    event_body,
)
from benchrun.observe import Run, untrusted_json as raw

RUN = Run(namespace="lab", name="chat", uid="uid-1", generation=1)
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


POD = {"kind": "Pod", "namespace": "lab", "name": "chat-0"}


def slice_(
    *endpoints: dict[str, Any],
    ports: Any = ({"name": "http", "port": 8000},),
    kind: str = "IPv4",
) -> Any:
    return {
        "addressType": kind,
        "ports": list(ports),
        "endpoints": [{"targetRef": POD, **each} for each in endpoints],
    }


def addresses(slices: list[Any], port: str = "http") -> tuple[str, ...]:
    return addresses_of(slices, port, namespace="lab")


def test_the_same_reason_of_the_same_run_is_the_same_event() -> None:
    one = event_body(RUN, Event("Running", "first"), now=NOW)
    repeated = event_body(
        RUN, Event("Running", "worded otherwise"), now=NOW.replace(hour=13)
    )
    assert one["metadata"] == repeated["metadata"]


def test_another_reason_or_another_run_is_another_event() -> None:
    other_uid = Run(namespace="lab", name="chat", uid="uid-2", generation=1)
    bodies = [
        event_body(RUN, Event("Running", ""), now=NOW),
        event_body(RUN, Event("Failed", ""), now=NOW),
        event_body(other_uid, Event("Running", ""), now=NOW),
    ]
    assert len({body["metadata"]["name"] for body in bodies}) == 3


def test_event_names_the_object_it_is_about_and_is_bounded() -> None:
    body = event_body(RUN, Event("Failed", "x" * 5000, warning=True), now=NOW)
    assert body["involvedObject"] == {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "namespace": "lab",
        "name": "chat",
        "uid": "uid-1",
    }
    assert (body["type"], len(body["message"])) == ("Warning", 1024)
    assert body["firstTimestamp"] == "2026-11-21T12:00:00Z"


def test_addresses_are_those_that_are_ready_or_do_not_say() -> None:
    slices = [
        slice_(
            {"addresses": ["10.0.0.2"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.1"]},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": False}},
        ),
        slice_({"addresses": ["10.0.0.1"]}),
    ]
    assert addresses(slices) == ("10.0.0.1:8000", "10.0.0.2:8000")


def test_addresses_have_the_port_that_was_requested() -> None:
    ports = ({"name": "http", "port": 8000}, {"name": "metrics", "port": 9090})
    assert addresses(
        [slice_({"addresses": ["10.0.0.1"]}, ports=ports)], "metrics"
    ) == ("10.0.0.1:9090",)


def test_a_single_port_has_no_name() -> None:
    assert addresses(
        [slice_({"addresses": ["10.0.0.1"]}, ports=({"port": 8000},))], ""
    ) == ("10.0.0.1:8000",)


def test_ipv6_addresses_are_bracketed() -> None:
    assert addresses([slice_({"addresses": ["fd00::1"]}, kind="IPv6")], "http") == (
        "[fd00::1]:8000",
    )


def test_addresses_are_bounded() -> None:
    many = [{"addresses": [f"10.0.{n // 200}.{n % 200}"]} for n in range(500)]
    assert len(addresses([slice_(*many)])) == MAX_ENDPOINTS


@pytest.mark.parametrize(
    "target",
    [
        None,
        {},
        {"kind": "Node", "name": "a"},
        {"kind": "Pod", "namespace": "kube-system", "name": "etcd"},
        {"kind": "Pod", "name": "a"},
    ],
)
def test_an_address_that_is_no_pod_of_the_namespace_is_not_taken(
    target: Any,
) -> None:
    assert (
        addresses([slice_({"addresses": ["10.0.0.1"], "targetRef": target})]) == ()
    )


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "169.254.169.254",
        "169.254.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "::",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "metadata.google.internal",
        "10.0.0.1@evil.example",
        "10.0.0.1/8",
        "",
        "2130706433",
        "0177.0.0.1",
        "fe80::1%eth0",
        7,
        None,
    ],
)
def test_an_address_that_no_pod_has_is_not_taken(address: Any) -> None:
    assert addresses([slice_({"addresses": [address, "10.0.0.9"]})]) == (
        "10.0.0.9:8000",
    )


@pytest.mark.parametrize("port", [0, -1, 65_536, "80", "80/x", True, None])
def test_a_number_that_is_no_port_is_not_taken(port: Any) -> None:
    assert (
        addresses(
            [
                slice_(
                    {"addresses": ["10.0.0.1"]},
                    ports=({"name": "http", "port": port},),
                )
            ]
        )
        == ()
    )


def test_an_event_steers_no_terminal() -> None:
    assert (
        event_body(RUN, Event("Failed", "\x1b[31mbad\x1b[0m"), now=NOW)["message"]
        == "bad"
    )


def test_controller_is_the_owner_that_controls() -> None:
    owners = [{"uid": "a"}, {"uid": "b", "controller": True}]
    assert raw.controller({"ownerReferences": owners}) == {
        "uid": "b",
        "controller": True,
    }
    assert raw.controller({}) == {}


def pod(ip: Any, *, ready: Any = "True", **metadata: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": metadata,
        "status": {"podIP": ip, "conditions": conditions},
    }


@pytest.mark.parametrize(
    "left_out",
    [
        pod("10.0.0.1", ready="False"),
        pod("10.0.0.1", deletionTimestamp="2026-11-21T12:00:00Z"),
        pod(None),
        pod("169.254.169.254"),
        pod("localhost"),
        {},
        {"metadata": 1, "status": []},
    ],
)
def test_pods_that_can_not_be_read_are_left_out(left_out: dict[str, Any]) -> None:
    there = pod("10.0.0.9")
    assert addresses_of_pods([left_out, there, there], 8001) == ("10.0.0.9:8001",)


def test_as_many_pods_are_read_as_addresses_of_a_service() -> None:
    many = [pod(f"10.0.{n // 256}.{n % 256}") for n in range(1, 1000)]
    assert len(addresses_of_pods(many, 1)) == MAX_ENDPOINTS
    assert addresses_of_pods([pod("fd00::1")], 1) == ("[fd00::1]:1",)
