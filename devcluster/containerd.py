"""What we ask of the cluster's containerd, through its own client ctr(8)."""

from pathlib import Path

from devcluster.running import run, succeeds
from devcluster.settings import Settings


def default_spec() -> str:
    """The container description containerd would start from, as JSON; needs no server."""
    return run("ctr", "oci", "spec")


def answers(settings: Settings) -> bool:
    """Whether the server is up."""
    return settings.socket.exists() and succeeds(*_ctr(settings), "version")


def images(settings: Settings) -> set[str]:
    """The names of the images it holds."""
    return set(run(*_ctr(settings), "images", "list", "--quiet").split())


def import_archive(settings: Settings, archive: Path) -> None:
    """Take over every image of a docker archive."""
    run(*_ctr(settings), "images", "import", archive)


def _ctr(settings: Settings) -> tuple[str, ...]:
    return ("ctr", "--address", str(settings.socket), "--namespace", "k8s.io")
