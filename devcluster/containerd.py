"""Requests to the cluster's containerd, made through its own client ctr(8)."""

from pathlib import Path

from devcluster.running import run, succeeds
from devcluster.settings import Settings


def default_spec() -> str:
    """Return, as JSON, the container spec that containerd would start from; needs no server."""
    return run("ctr", "oci", "spec")


def answers(settings: Settings) -> bool:
    """Return whether containerd is up."""
    return settings.socket.exists() and succeeds(*_ctr(settings), "version")


def images(settings: Settings) -> set[str]:
    """Return the names of the images containerd holds."""
    return set(run(*_ctr(settings), "images", "list", "--quiet").split())


def import_archive(settings: Settings, archive: Path) -> None:
    """Import every image of a docker archive into containerd."""
    run(*_ctr(settings), "images", "import", archive)


def _ctr(settings: Settings) -> tuple[str, ...]:
    return ("ctr", "--address", str(settings.socket), "--namespace", "k8s.io")
