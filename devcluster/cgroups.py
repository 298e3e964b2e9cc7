"""The cluster's own branch of every cgroup hierarchy, below which kubelet puts all pods."""

import os
from pathlib import Path

from devcluster.reporting import DevclusterError
from devcluster.running import wait_until
from devcluster.settings import Settings

MOUNTED = Path("/sys/fs/cgroup")


def branches(settings: Settings, mounted: Path = MOUNTED) -> list[Path]:
    """Return the paths of the cluster's cgroups: one with v2, one in each hierarchy with v1.

    Raises DevclusterError when no cgroups are mounted.
    """
    if (mounted / "cgroup.controllers").exists():
        return [mounted / settings.cgroup]
    # A hierarchy of v1 has a file "tasks"; "unified", where v2 is mounted beside v1, has none.
    found = [
        entry / settings.cgroup
        for entry in sorted(mounted.glob("*"))
        if (entry / "tasks").exists()
    ]
    if not found:
        raise DevclusterError(
            f"no cgroups under {mounted}; mount them, or run on a machine or container that has "
            "them"
        )
    return found


def make(settings: Settings) -> None:
    """Create the cluster's cgroups.

    A symbolic link between two hierarchies (cpu, cpuacct) makes one of them come up twice.
    """
    for branch in branches(settings):
        branch.mkdir(exist_ok=True)


def remove(settings: Settings, mounted: Path = MOUNTED) -> None:
    """Remove the cluster's cgroups, and the one that runc makes in "unified" by itself.

    Their processes are dead by now, but a cgroup stays busy for a moment longer, so this retries
    for 15 seconds and then raises DevclusterError.
    """

    def left() -> list[Path]:
        return [
            *mounted.glob(settings.cgroup),
            *mounted.glob(f"*/{settings.cgroup}"),
        ]

    def gone() -> bool:
        for branch in left():
            _remove_tree(branch)
        return not left()

    remedy = f"see which processes are in there: cat {mounted}/*/{settings.cgroup}/**/cgroup.procs"
    wait_until(
        gone,
        what="removing the cluster's cgroups",
        timeout_seconds=15,
        remedy=remedy,
    )


def _remove_tree(branch: Path) -> None:
    """Remove a cgroup from its leaves up; leave what is busy for the next try."""
    for folder, _, _ in os.walk(branch, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError:
            continue
