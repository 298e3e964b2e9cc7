"""The state directory: made ours by the record of the settings in it, and deleted only if it is
ours."""

from pathlib import Path

from devcluster import settings as settings_module
from devcluster.reporting import DevclusterError
from devcluster.running import run
from devcluster.settings import RECORD, Settings

FOLDERS = ("logs/node", "etcd", "cni/conf", "cni/var", "kubelet", "containerd", "claims")


def prepare(settings: Settings) -> None:
    """Make the directory and its folders; raises when it is another cluster's, or no cluster's."""
    directory = settings.directory
    made_with = settings_module.load(directory)
    if made_with is None and any(directory.iterdir()):
        raise DevclusterError(
            f"DEVCLUSTER_DIR holds something else; empty it, or choose another: {directory}"
        )
    if made_with is not None and (changed := settings_module.differences(made_with, settings)):
        raise DevclusterError(
            f"the cluster in {directory} was made with {', '.join(changed)}; run `down` first"
        )
    if made_with is None:
        write_whole(directory / RECORD, settings_module.to_record(settings))
    for folder in FOLDERS:
        (directory / folder).mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file at one blow: a kill leaves the old one or the new one, never half of it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=mode)
    new.write_text(text)
    new.replace(path)


def delete(settings: Settings) -> None:
    """Delete the directory and all that is in it, if it is ours."""
    if (settings.directory / RECORD).exists():
        run("rm", "-rf", "--one-file-system", settings.directory)
