"""Every setting, read once from environment variables into one frozen value.

A running cluster keeps the settings it was made with in its state directory, so that `down` and the
node itself use those and not what the environment says by then.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from devcluster.reporting import DevclusterError

NODE_NAME = "node1"
PREFIX_LENGTH = 24  # of the link between the machine and the node
RECORD = "settings.json"

# Places the node covers with mounts of its own: state kept there would vanish from its sight.
COVERED = (
    Path("/run"),
    Path("/var/run"),
    Path("/var/log"),
    Path("/var/lib/kubelet"),
    Path("/var/lib/cni"),
)

# A unix socket's path has at most 107 bytes, and containerd appends ".ttrpc" to the one it is
# given.
MAX_SOCKET_PATH = 100
# An interface name has at most 15 characters, three of which are "dc-".
MAX_NAME = 12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What distinguishes one cluster from another, and where it keeps its files."""

    directory: Path
    """State of this cluster: objects, containers, keys, logs. Deleted by `down`."""
    cache: Path
    """What is slow to make and any cluster can use: programs, images, the vLLM environment. Never
    deleted."""
    name: str
    """Names the network link, the cgroup and the kubeconfig's context."""
    node_ip: IPv4Address
    """The node's address: API server on port 6443, DNS on port 53."""
    host_ip: IPv4Address
    """The machine's own address as pods see it, on the same /24 as `node_ip`."""
    pod_cidr: IPv4Network
    service_cidr: IPv4Network
    fake_gpus: int
    """How many nvidia.com/gpu the node claims to have; 0 for none."""

    @property
    def programs(self) -> Path:
        return self.cache / "bin"

    @property
    def socket(self) -> Path:
        """Return the path of containerd's socket."""
        return self.directory / "containerd.sock"

    @property
    def registries(self) -> Path:
        """Return the folder of what containerd is told of registries, one folder each."""
        return self.directory / "registries"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def link(self) -> str:
        """Return the name of the machine's end of the network link to the node."""
        return f"dc-{self.name}"

    @property
    def cgroup(self) -> str:
        """Return the name of the cgroup above all cgroups of the cluster.

        It is also the cluster's name in kubeconfigs.
        """
        return f"devcluster-{self.name}"

    @property
    def link_network(self) -> IPv4Network:
        return IPv4Interface(f"{self.host_ip}/{PREFIX_LENGTH}").network

    @property
    def api_url(self) -> str:
        return f"https://{self.node_ip}:6443"


VARIABLES = {
    "directory": "DEVCLUSTER_DIR",
    "cache": "DEVCLUSTER_CACHE",
    "name": "DEVCLUSTER_NAME",
    "node_ip": "DEVCLUSTER_NODE_IP",
    "host_ip": "DEVCLUSTER_HOST_IP",
    "pod_cidr": "DEVCLUSTER_POD_CIDR",
    "service_cidr": "DEVCLUSTER_SVC_CIDR",
    "fake_gpus": "DEVCLUSTER_FAKE_GPUS",
}


def from_environment(
    environment: Mapping[str, str], *, home: Path, here: Path
) -> Settings:
    """Read the settings from environment variables.

    Relative paths start at `here`, and the default cache is below `home`. Raises DevclusterError
    that names the variable at fault.
    """
    cache_home = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    defaults = {
        "directory": ".devcluster",
        "cache": str(cache_home / "benchrun-devcluster"),
        "name": "benchrun",
        "node_ip": "10.198.0.1",
        "host_ip": "10.198.0.254",
        "pod_cidr": "10.244.0.0/24",
        "service_cidr": "10.96.0.0/16",
        "fake_gpus": "8",
    }
    return parse(
        {
            field: environment.get(VARIABLES[field]) or text
            for field, text in defaults.items()
        },
        here=here,
    )


def parse(texts: Mapping[str, str], *, here: Path) -> Settings:
    """Parse one text per field into checked settings; relative paths start at `here`.

    Raises DevclusterError that names the variable at fault.
    """
    settings = Settings(
        directory=(here / texts["directory"]).resolve(),
        cache=(here / texts["cache"]).resolve(),
        name=texts["name"],
        node_ip=_address("node_ip", texts),
        host_ip=_address("host_ip", texts),
        pod_cidr=_network("pod_cidr", texts),
        service_cidr=_network("service_cidr", texts),
        fake_gpus=_count("fake_gpus", texts),
    )
    _check(settings)
    return settings


def to_record(settings: Settings) -> str:
    """Return the text kept in the state directory; `from_record` reads it back."""
    return (
        json.dumps(
            {field: str(getattr(settings, field)) for field in VARIABLES}, indent=1
        )
        + "\n"
    )


def from_record(text: str) -> Settings:
    """Parse what `to_record` wrote."""
    return parse(json.loads(text), here=Path("/"))


def load(directory: Path) -> Settings | None:
    """Return the settings a cluster in `directory` was made with, or None when there is none."""
    try:
        return from_record((directory / RECORD).read_text())
    except FileNotFoundError:
        return None


def differences(made_with: Settings, asked_for: Settings) -> list[str]:
    """Return the variables that disagree, as `NAME=old, not new`; empty when none do."""
    return [
        f"{variable}={getattr(made_with, field)}, not {getattr(asked_for, field)}"
        for field, variable in VARIABLES.items()
        if getattr(made_with, field) != getattr(asked_for, field)
    ]


def _address(field: str, texts: Mapping[str, str]) -> IPv4Address:
    try:
        return IPv4Address(texts[field])
    except ValueError as error:
        raise DevclusterError(
            f"{VARIABLES[field]} must be an IPv4 address: {error}"
        ) from error


def _network(field: str, texts: Mapping[str, str]) -> IPv4Network:
    try:
        return IPv4Network(texts[field])
    except ValueError as error:
        raise DevclusterError(
            f"{VARIABLES[field]} must be an IPv4 network such as 10.244.0.0/24: {error}"
        ) from error


def _count(field: str, texts: Mapping[str, str]) -> int:
    if not texts[field].isdecimal():
        raise DevclusterError(
            f"{VARIABLES[field]} must be a whole number, 0 or more: {texts[field]!r}"
        )
    return int(texts[field])


def _check(settings: Settings) -> None:
    """Raise DevclusterError for settings that would fail later and less clearly."""
    name = settings.name
    if not (
        name.isascii()
        and name.replace("-", "").isalnum()
        and name == name.lower()
        and len(name) <= MAX_NAME
    ):
        raise DevclusterError(
            f"DEVCLUSTER_NAME must be at most {MAX_NAME} lower-case letters, digits and hyphens: "
            f"{name!r}"
        )
    if len(str(settings.socket)) > MAX_SOCKET_PATH:
        raise DevclusterError(
            "DEVCLUSTER_DIR is too long for a unix socket in it, choose a shorter path: "
            f"{settings.directory}"
        )
    for field, path in (
        ("directory", settings.directory),
        ("cache", settings.cache),
    ):
        if any(path.is_relative_to(covered) for covered in COVERED):
            raise DevclusterError(
                f"{VARIABLES[field]} must not be below {', '.join(map(str, COVERED))}, which the "
                f"node covers: {path}"
            )
    if (
        settings.node_ip == settings.host_ip
        or settings.node_ip not in settings.link_network
    ):
        raise DevclusterError(
            "DEVCLUSTER_NODE_IP and DEVCLUSTER_HOST_IP must be two addresses of one /24: "
            f"{settings.node_ip}, {settings.host_ip}"
        )
    networks = (settings.link_network, settings.pod_cidr, settings.service_cidr)
    for index, network in enumerate(networks):
        if any(network.overlaps(other) for other in networks[index + 1 :]):
            raise DevclusterError(
                "the /24 of DEVCLUSTER_NODE_IP, DEVCLUSTER_POD_CIDR and DEVCLUSTER_SVC_CIDR must "
                "not overlap: " + ", ".join(map(str, networks))
            )
