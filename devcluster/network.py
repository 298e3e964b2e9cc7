"""The link between the machine and the node: a veth pair, and routes to pods and Services.

The node gets no default route. Nothing on it, above all a pull of an image that was never loaded,
can leave the machine: it fails at once instead.
"""

import json
from ipaddress import IPv4Network
from pathlib import Path

from devcluster.reporting import DevclusterError
from devcluster.running import run, succeeds
from devcluster.settings import PREFIX_LENGTH, Settings


def foreign_owner(settings: Settings) -> str:
    """Return the state directory of another cluster that is up under this name, or "".

    The alias of the network link names the owner.
    """
    alias = Path(f"/sys/class/net/{settings.link}/ifalias")
    owner = alias.read_text().strip() if alias.exists() else ""
    return "" if owner == str(settings.directory) else owner


def refuse_foreign(settings: Settings) -> None:
    """Raise DevclusterError when another cluster is up under this name."""
    if owner := foreign_owner(settings):
        raise DevclusterError(
            f"a cluster named {settings.name} is up with DEVCLUSTER_DIR={owner}; use that, or set "
            "DEVCLUSTER_NAME"
        )


def refuse_taken(settings: Settings) -> None:
    """Raise DevclusterError when this machine already routes an address the cluster is to have."""
    routes = json.loads(
        run("ip", "-json", "route", "show", "table", "all", "type", "unicast")
    )
    for variable, wanted in _wanted(settings):
        for route in routes:
            if _overlaps(route["dst"], wanted):
                raise DevclusterError(
                    f"this machine already has a route to {route['dst']} (device "
                    f"{route.get('dev', '?')}); "
                    f"choose another range with {variable}"
                )


def connect(settings: Settings, node_pid: int) -> None:
    """Create the link between this machine and the network namespace of the node's process."""
    link = settings.link
    node = str(node_pid)
    run(
        "ip",
        "link",
        "add",
        link,
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        node,
    )
    run("ip", "link", "set", link, "alias", settings.directory)
    run("ip", "address", "add", f"{settings.host_ip}/{PREFIX_LENGTH}", "dev", link)
    run("ip", "link", "set", link, "up")
    inside = ("nsenter", "--target", node, "--net", "ip")
    run(*inside, "link", "set", "lo", "up")
    run(
        *inside,
        "address",
        "add",
        f"{settings.node_ip}/{PREFIX_LENGTH}",
        "dev",
        "eth0",
    )
    run(*inside, "link", "set", "eth0", "up")
    # A packet to a Service has to have a route before kube-proxy's rules can rewrite where it goes.
    run(*inside, "route", "add", str(settings.service_cidr), "dev", "eth0")
    for network in (settings.pod_cidr, settings.service_cidr):
        run("ip", "route", "add", str(network), "via", str(settings.node_ip))


def connected(settings: Settings) -> bool:
    """Return whether the link is there.

    It cannot be mended under a running node, whose servers are bound to its address.
    """
    return Path(f"/sys/class/net/{settings.link}").exists()


def disconnect(settings: Settings) -> None:
    """Remove the link; the routes over it go with it.

    When the node dies the kernel removes the link too, but later.
    """
    if connected(settings):
        succeeds("ip", "link", "delete", settings.link)


def _wanted(settings: Settings) -> list[tuple[str, IPv4Network]]:
    return [
        ("DEVCLUSTER_NODE_IP and DEVCLUSTER_HOST_IP", settings.link_network),
        ("DEVCLUSTER_POD_CIDR", settings.pod_cidr),
        ("DEVCLUSTER_SVC_CIDR", settings.service_cidr),
    ]


def _overlaps(destination: str, wanted: IPv4Network) -> bool:
    """Return whether a route's destination overlaps a range; default routes and IPv6 do not."""
    try:
        return IPv4Network(destination, strict=False).overlaps(wanted)
    except ValueError:
        return False
