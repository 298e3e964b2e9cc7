"""Servers: which there are, in which order they start, and that their flags agree with the files written for them."""

from pathlib import Path

from devcluster import servers, settings

SETTINGS = settings.from_environment(
    {"DEVCLUSTER_DIR": "/state", "DEVCLUSTER_CACHE": "/cache"}, home=Path("/"), here=Path("/")
)
BY_NAME = {server.name: server for server in servers.servers(SETTINGS)}


def test_the_api_server_and_what_it_needs_come_first() -> None:
    assert list(BY_NAME) == ["etcd", "containerd", "api-server", "controllers", "scheduler", "kubelet", "proxy", "dns"]
    assert [name for name, server in BY_NAME.items() if not server.after_api_server] == [
        "etcd",
        "containerd",
        "api-server",
    ]


def test_the_api_server_listens_where_kubeconfigs_point() -> None:
    command = BY_NAME["api-server"].command
    assert command[:2] == ("/cache/bin/kube", "kube-apiserver")
    assert "--bind-address=10.198.0.1" in command
    assert "--secure-port=6443" in command
    assert "--service-cluster-ip-range=10.96.0.0/16" in command
    assert "--token-auth-file=/state/pki/tokens.csv" in command


def test_etcd_is_reached_from_the_node_alone() -> None:
    addresses = [word.partition("=")[2] for word in BY_NAME["etcd"].command if "-urls=" in word]
    assert len(addresses) == 3
    assert all(address.startswith("http://127.0.0.1:") for address in addresses)


def test_the_connection_table_of_the_machine_is_left_alone() -> None:
    assert "--conntrack-max-per-core=0" in BY_NAME["proxy"].command


def test_claims_are_served_by_the_controller_manager() -> None:
    assert "--enable-hostpath-provisioner=true" in BY_NAME["controllers"].command
