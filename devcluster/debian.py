"""The Debian packages the cluster needs, and the installation of the missing ones."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from devcluster.reporting import DevclusterError, say
from devcluster.running import run, search_path

# What is looked for (a program, or a path) -> the package that brings it.
CLUSTER = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/cni/portmap": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
}
COMPILER = {"gcc": "gcc", "/usr/include/stdio.h": "libc6-dev"}
IMAGES = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
}


def missing(
    needed: Iterable[tuple[str, str]], found: Callable[[str], bool]
) -> list[str]:
    """Return the packages to install, sorted and without duplicates.

    `needed` holds pairs of a program or path and its package; `found` tells whether a program or
    path is there.
    """
    return sorted({package for thing, package in needed if not found(thing)})


def complaint(packages: list[str]) -> str:
    """Return the one line that says what is missing and how to get it."""
    return (
        "missing Debian packages; run: apt-get install --no-install-recommends "
        f"{' '.join(packages)}"
    )


def ensure(*groups: dict[str, str]) -> None:
    """Install everything the groups name that is missing, as root on Debian.

    Raises DevclusterError with the command to run when this is not root or there is no apt-get, and
    when a package is still missing after the installation.
    """
    needed = [item for group in groups for item in group.items()]
    packages = missing(needed, _found)
    if not packages:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise DevclusterError(complaint(packages))
    say(f"installing Debian packages: {' '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-q", extra=quiet, shown=True)
    run(
        "apt-get",
        "install",
        "-qy",
        "--no-install-recommends",
        *packages,
        extra=quiet,
        shown=True,
    )
    if still := missing(needed, _found):
        raise DevclusterError(
            f"{complaint(still)} (apt-get just did, and they are still not there)"
        )


def require_root() -> None:
    """Raise DevclusterError unless this is root, which namespaces, cgroups and mounts need."""
    if os.geteuid() != 0:
        raise DevclusterError(
            "this needs root, for namespaces, cgroups and mounts; run it with sudo -E"
        )


def _found(thing: str) -> bool:
    return (
        Path(thing).exists()
        if thing.startswith("/")
        else shutil.which(thing, path=search_path()) is not None
    )
