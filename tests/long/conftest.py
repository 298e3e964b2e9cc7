"""The operator as the end-to-end tests install it, and a release in its place."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from client.processes import TINY_MODEL
from e2e.conftest import install, namespace, operator
from kit.installed import HOME
from kit.kubectl import Namespace, command
from kit.release_files import make_release

__all__ = ["namespace", "operator"]

ROOT = Path(__file__).parents[2]
LLAMACPP = "docker.io/benchrun/llamacpp:test"


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release once, and return the folder of its files."""
    return make_release(tmp_path_factory.mktemp("release") / "dist")


@pytest.fixture(scope="session")
def llamacpp_image() -> str:
    """Build llama.cpp's server with a model that has the tokenizer of the client."""
    with TemporaryDirectory() as made:
        context = Path(made, "context")
        shutil.copytree(ROOT / "tests/long/llamacpp", context)
        shutil.copy(TINY_MODEL / "tokenizer.json", context)
        shutil.copy(ROOT / "tests/client/llamacpp_model.py", context)
        words: list[str | Path] = [
            "build",
            "-t",
            LLAMACPP,
            "-f",
            context / "Dockerfile",
            context,
        ]
        subprocess.run([sys.executable, "devcluster", *words], cwd=ROOT, check=True)
    return LLAMACPP


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
