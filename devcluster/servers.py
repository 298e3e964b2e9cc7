"""The servers that run on the node: their command lines, in the order in which they start.

All functions here are pure.
"""

from dataclasses import dataclass

from devcluster.configs import CLUSTER_DOMAIN, FRONT_PROXY
from devcluster.settings import NODE_NAME, Settings


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server; its output goes to logs/NAME.log."""

    name: str
    command: tuple[str, ...]
    after_api_server: bool = True
    """Whether it is of use only once the API server answers; before that it would fill its log with
    failures."""


def servers(settings: Settings) -> list[Server]:
    """Return every server of the node, in starting order."""
    return [
        _etcd(settings),
        _containerd(settings),
        _api_server(settings),
        *_clients(settings),
    ]


def _etcd(settings: Settings) -> Server:
    client = "http://127.0.0.1:2379"
    peer = "http://127.0.0.1:2380"
    flags = {
        "data-dir": settings.directory / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
    }
    # Without fsync: a tenth of the disk's time, and still safe against kill -9, though not against
    # a power cut.
    return Server(
        name="etcd",
        command=("etcd", *_flags(flags), "--unsafe-no-fsync"),
        after_api_server=False,
    )


def _containerd(settings: Settings) -> Server:
    command = (
        "containerd",
        "--config",
        str(settings.directory / "containerd.toml"),
    )
    return Server(name="containerd", command=command, after_api_server=False)


def _api_server(settings: Settings) -> Server:
    pki = settings.directory / "pki"
    flags = {
        "etcd-servers": "http://127.0.0.1:2379",
        "bind-address": settings.node_ip,
        "advertise-address": settings.node_ip,
        "secure-port": 6443,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "token-auth-file": pki / "tokens.csv",
        "authorization-mode": "Node,RBAC",
        "kubelet-client-certificate": pki / "kubelet-client.crt",
        "kubelet-client-key": pki / "kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        # aggregated APIs, such as the one in which Kueue says who waits in a queue
        "requestheader-client-ca-file": pki / "ca.crt",
        "requestheader-allowed-names": FRONT_PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": pki / f"{FRONT_PROXY}.crt",
        "proxy-client-key-file": pki / f"{FRONT_PROXY}.key",
        "service-cluster-ip-range": settings.service_cidr,
        "service-account-issuer": f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        "service-account-key-file": pki / "sa.pub",
        "service-account-signing-key-file": pki / "sa.key",
        "allow-privileged": "true",
    }
    return Server(
        name="api-server",
        command=_kube(settings, "kube-apiserver", flags),
        after_api_server=False,
    )


def _clients(settings: Settings) -> list[Server]:
    """Return the servers that are clients of the API server."""
    home = settings.directory
    pki = settings.directory / "pki"
    controllers = {
        "kubeconfig": home / "controllers.kubeconfig",
        "service-account-private-key-file": pki / "sa.key",
        "root-ca-file": pki / "ca.crt",
        "cluster-signing-cert-file": pki / "ca.crt",
        "cluster-signing-key-file": pki / "ca.key",
        "use-service-account-credentials": "true",
        "leader-elect": "false",
        "enable-hostpath-provisioner": "true",
        "flex-volume-plugin-dir": "/var/lib/kubelet/volume-plugins",
    }
    scheduler = {
        "kubeconfig": home / "scheduler.kubeconfig",
        "leader-elect": "false",
    }
    kubelet = {
        "config": home / "kubelet.json",
        "kubeconfig": home / "kubelet.kubeconfig",
        "hostname-override": NODE_NAME,
        "node-ip": settings.node_ip,
    }
    proxy = {
        "kubeconfig": home / "proxy.kubeconfig",
        "proxy-mode": "iptables",
        "hostname-override": NODE_NAME,
        "cluster-cidr": settings.pod_cidr,
        "conntrack-max-per-core": 0,  # the table's size is the machine's, not the node's, to set
    }
    dns = (str(settings.programs / "coredns"), "-conf", str(home / "Corefile"))
    return [
        Server(
            name="controllers",
            command=_kube(settings, "kube-controller-manager", controllers),
        ),
        Server(
            name="scheduler", command=_kube(settings, "kube-scheduler", scheduler)
        ),
        Server(name="kubelet", command=_kube(settings, "kubelet", kubelet)),
        Server(name="proxy", command=_kube(settings, "kube-proxy", proxy)),
        Server(name="dns", command=dns),
    ]


def _kube(
    settings: Settings, server: str, flags: dict[str, object]
) -> tuple[str, ...]:
    return (str(settings.programs / "kube"), server, *_flags(flags))


def _flags(values: dict[str, object]) -> tuple[str, ...]:
    return tuple(f"--{name}={value}" for name, value in values.items())
