"""The operator as the end-to-end tests install it, and a release in its place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.conftest import install, namespace, operator
from kit.installed import HOME
from kit.kubectl import Namespace, command
from kit.release_files import make_release

__all__ = ["namespace", "operator"]


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release once, and return the folder of its files."""
    return make_release(tmp_path_factory.mktemp("release") / "dist")


@pytest.fixture
def cleared(operator: Namespace) -> Iterator[None]:
    """A cluster without operator; the one from this checkout is back afterwards."""
    uninstall()
    try:
        yield
    finally:
        install()


def uninstall() -> None:
    command(
        *("helm", "uninstall", "benchrun", f"--namespace={HOME.name}"),
        *("--no-hooks", "--ignore-not-found", "--wait"),
    )
