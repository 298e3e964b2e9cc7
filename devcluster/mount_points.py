"""Folders at fixed paths that servers insist on, and that the node covers with folders of its own.

The mounts are visible only to the node, but a mount needs a folder to lie on. A folder that the
machine lacks is made, noted, and removed again.
"""

from pathlib import Path

from devcluster.settings import Settings

RECORD = "mountpoints.made"

# On the machine -> below the state directory. Sockets of device plugins, results of network
# plugins, pod logs and the folders of claims: no option moves any of them.
COVERED = {
    Path("/var/lib/kubelet"): "kubelet",
    Path("/var/lib/cni"): "cni/var",
    Path("/var/log"): "logs/node",
    Path("/tmp/hostpath_pv"): "claims",
}


def make(settings: Settings) -> None:
    """Create the folders this machine lacks, and record which ones those are."""
    made = [path for path in COVERED if not path.exists() or _in_use(path)]
    # A folder that another cluster has covered was made by that one; whichever ends last removes
    # it.
    (settings.directory / RECORD).write_text("".join(f"{path}\n" for path in made))
    for path in made:
        path.mkdir(parents=True, exist_ok=True)


def remove(settings: Settings) -> None:
    """Remove the folders `make` created, except those that are not empty or still in use.

    A folder is in use while another cluster covers it.
    """
    record = settings.directory / RECORD
    if not record.exists():
        return
    for path in map(Path, record.read_text().splitlines()):
        # Removing a folder would silently unmount what other mount namespaces have on it.
        if path.is_dir() and not any(path.iterdir()) and not _in_use(path):
            path.rmdir()
    record.unlink()


def _in_use(path: Path) -> bool:
    """Return whether something is mounted at `path` in any process's view of the machine."""
    return any(
        _mounted(mounts, path) for mounts in Path("/proc").glob("[0-9]*/mountinfo")
    )


def _mounted(mounts: Path, path: Path) -> bool:
    try:
        return f" {path} " in mounts.read_text()
    except OSError:  # the process has ended
        return False
