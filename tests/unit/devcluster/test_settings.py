"""Settings: defaults, what is refused and in which words, and the record in the state directory."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from devcluster import settings
from devcluster.reporting import DevclusterError
from devcluster.settings import Settings

HOME = Path("/home/someone")
HERE = Path("/src/project")


def read(**environment: str) -> Settings:
    return settings.from_environment(environment, home=HOME, here=HERE)


def test_defaults_need_no_environment() -> None:
    assert read() == Settings(
        directory=HERE / ".devcluster",
        cache=HOME / ".cache" / "benchrun-devcluster",
        name="benchrun",
        node_ip=IPv4Address("10.198.0.1"),
        host_ip=IPv4Address("10.198.0.254"),
        pod_cidr=IPv4Network("10.244.0.0/24"),
        service_cidr=IPv4Network("10.96.0.0/16"),
        fake_gpus=8,
    )


def test_every_variable_is_read() -> None:
    made = read(
        DEVCLUSTER_DIR="elsewhere/dc",
        DEVCLUSTER_CACHE="/big/cache",
        DEVCLUSTER_NAME="two",
        DEVCLUSTER_NODE_IP="10.1.0.1",
        DEVCLUSTER_HOST_IP="10.1.0.2",
        DEVCLUSTER_POD_CIDR="10.2.0.0/24",
        DEVCLUSTER_SVC_CIDR="10.3.0.0/16",
        DEVCLUSTER_FAKE_GPUS="0",
    )
    assert made == Settings(
        directory=HERE / "elsewhere/dc",
        cache=Path("/big/cache"),
        name="two",
        node_ip=IPv4Address("10.1.0.1"),
        host_ip=IPv4Address("10.1.0.2"),
        pod_cidr=IPv4Network("10.2.0.0/24"),
        service_cidr=IPv4Network("10.3.0.0/16"),
        fake_gpus=0,
    )


def test_an_empty_variable_is_an_absent_one() -> None:
    assert read(DEVCLUSTER_NAME="", XDG_CACHE_HOME="") == read()


def test_the_cache_follows_xdg() -> None:
    assert read(XDG_CACHE_HOME="/xdg").cache == Path("/xdg/benchrun-devcluster")


@pytest.mark.parametrize(
    ("message", "variable", "value"),
    [
        pytest.param(
            "at most 12", "DEVCLUSTER_NAME", "thirteenchars", id="name-too-long"
        ),
        pytest.param(
            "lower-case letters", "DEVCLUSTER_NAME", "Name", id="name-upper-case"
        ),
        pytest.param(
            "lower-case letters", "DEVCLUSTER_NAME", "a/b", id="name-with-slash"
        ),
        pytest.param(
            "lower-case letters", "DEVCLUSTER_NAME", "--", id="name-without-letters"
        ),
        pytest.param(
            "DEVCLUSTER_NODE_IP must be an IPv4 address",
            "DEVCLUSTER_NODE_IP",
            "::1",
            id="address-v6",
        ),
        pytest.param(
            "must be two addresses of one /24",
            "DEVCLUSTER_NODE_IP",
            "10.9.0.1",
            id="other-link",
        ),
        pytest.param(
            "must be two addresses of one /24",
            "DEVCLUSTER_NODE_IP",
            "10.198.0.254",
            id="same-address",
        ),
        pytest.param(
            "DEVCLUSTER_POD_CIDR must be an IPv4 network",
            "DEVCLUSTER_POD_CIDR",
            "10.0.0.1/8",
            id="host-bits",
        ),
        pytest.param(
            "must not overlap",
            "DEVCLUSTER_POD_CIDR",
            "10.96.3.0/24",
            id="pods-in-services",
        ),
        pytest.param(
            "must not overlap",
            "DEVCLUSTER_SVC_CIDR",
            "10.198.0.0/16",
            id="services-over-link",
        ),
        pytest.param(
            "must be a whole number",
            "DEVCLUSTER_FAKE_GPUS",
            "-1",
            id="negative-gpus",
        ),
        pytest.param(
            "must be a whole number",
            "DEVCLUSTER_FAKE_GPUS",
            "many",
            id="wordy-gpus",
        ),
        pytest.param(
            "too long for a unix socket",
            "DEVCLUSTER_DIR",
            "/" + "d" * 90,
            id="long-folder",
        ),
        pytest.param(
            "must not be below", "DEVCLUSTER_DIR", "/run/dc", id="covered-folder"
        ),
        pytest.param(
            "must not be below",
            "DEVCLUSTER_CACHE",
            "/var/lib/kubelet",
            id="covered-cache",
        ),
    ],
)
def test_an_impossible_request_is_rejected_in_one_line(
    message: str, variable: str, value: str
) -> None:
    with pytest.raises(DevclusterError, match=message) as refused:
        read(**{variable: value})
    assert variable in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_longest_folder_and_name_that_fit_are_taken() -> None:
    made = read(DEVCLUSTER_DIR="/" + "d" * 83, DEVCLUSTER_NAME="a23456789-12")
    assert len(str(made.socket)) == 100
    assert len(made.link) == 15


def test_the_record_gives_back_the_same_settings(tmp_path: Path) -> None:
    made = read(DEVCLUSTER_DIR=str(tmp_path), DEVCLUSTER_NAME="two")
    (tmp_path / "settings.json").write_text(settings.to_record(made))
    assert settings.load(tmp_path) == made


def test_a_folder_without_a_record_holds_no_cluster(tmp_path: Path) -> None:
    assert settings.load(tmp_path / "absent") is None


def test_differences_are_named_by_their_variables() -> None:
    assert settings.differences(read(), read()) == []
    assert settings.differences(
        read(), read(DEVCLUSTER_NAME="two", DEVCLUSTER_FAKE_GPUS="2")
    ) == [
        "DEVCLUSTER_NAME=benchrun, not two",
        "DEVCLUSTER_FAKE_GPUS=8, not 2",
    ]
