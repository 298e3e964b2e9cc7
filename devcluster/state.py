"""The state directory, marked as a cluster's by the record of the settings in it.

It is deleted only if it bears that record.
"""

from pathlib import Path

from devcluster import settings as settings_module
from devcluster.reporting import DevclusterError
from devcluster.running import run
from devcluster.settings import RECORD, Settings

FOLDERS = (
    "logs/node",
    "etcd",
    "cni/conf",
    "cni/var",
    "kubelet",
    "containerd",
    "claims",
)


def prepare(settings: Settings) -> None:
    """Create the state directory's folders and its record.

    Raises DevclusterError when the directory belongs to a cluster with other settings, or holds
    something that is not a cluster.
    """
    directory = settings.directory
    made_with = settings_module.load(directory)
    if made_with is None and any(directory.iterdir()):
        raise DevclusterError(
            f"DEVCLUSTER_DIR holds something else; empty it, or choose another: {directory}"
        )
    if made_with is not None and (
        changed := settings_module.differences(made_with, settings)
    ):
        raise DevclusterError(
            f"the cluster in {directory} was made with {', '.join(changed)}; run `down` first"
        )
    if made_with is None:
        write_whole(directory / RECORD, settings_module.to_record(settings))
    for folder in FOLDERS:
        (directory / folder).mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file atomically: a kill leaves the old one or the new one, never half of it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=mode)
    new.write_text(text)
    new.replace(path)


def delete(settings: Settings) -> None:
    """Delete the directory and all that is in it, if it bears the record of a cluster."""
    if (settings.directory / RECORD).exists():
        run("rm", "-rf", "--one-file-system", settings.directory)
