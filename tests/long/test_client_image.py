"""The client's image: small, and the client's own suite passes in it.

The suite needs a real vLLM and a simulated server beside the client; those run on the machine, and
the client in the image's files, read-only, as `kit.image_archive` mounts them.
"""

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from client.processes import CACHE
from kit.image_archive import UnpackedImage, python_of, unpack

ROOT = Path(__file__).parents[2]
IMAGE = os.environ.get("CLIENT_IMAGE", "docker.io/benchrun/client:dev")
MOST_MEGABYTES = 1000
RUNS_THE_CLIENT = {"client", "client_of_two_pods", "CLIENT_PYTHON"}
"""Names of `client.processes` by which a file of the suite starts the client's Python."""

pytestmark = pytest.mark.timeout(5400)


def devcluster(*words: str | Path) -> None:
    subprocess.run([sys.executable, "devcluster", *words], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not pytest's own, which keeps three.
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(scope="module")
def image(folder: Path) -> UnpackedImage:
    archive = folder / "client.tar"
    devcluster("save", "--output", archive, IMAGE)
    found = unpack(archive, folder / "root")
    archive.unlink()
    return found


def client_files() -> list[Path]:
    return [
        path
        for path in sorted((ROOT / "tests/client").glob("test_*.py"))
        if RUNS_THE_CLIENT & names_of_processes(path)
    ]


def names_of_processes(path: Path) -> set[str]:
    """What a file imports from `client.processes`."""
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "client.processes"
        for alias in node.names
    }


def test_it_is_small_and_has_no_kernels_and_no_torch(image: UnpackedImage) -> None:
    assert image.megabytes < MOST_MEGABYTES
    packages = next(image.root.glob("usr/local/lib/python3*/site-packages"))
    assert not (packages / "torch").exists()
    assert not list((packages / "vllm").rglob("*.so"))
    assert int(image.config["User"].partition(":")[0]) > 0


def test_the_clients_suite_passes_in_it(image: UnpackedImage, folder: Path) -> None:
    python = python_of(image, folder / "python", Path("/tmp"), CACHE / "models")
    files = client_files()
    assert len(files) > 10
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *files],
        cwd=ROOT,
        env={**os.environ, "BENCHRUN_CLIENT_PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]


def test_a_base_that_has_vllm_keeps_it_and_nothing_is_installed(
    folder: Path,
) -> None:
    base = folder / "base"
    base.mkdir()
    (base / "Dockerfile").write_text(
        "FROM python:3.11-slim\n"
        "RUN mkdir /opt/theirs && echo mine > /opt/theirs/vllm.py\n"
        "ENV PYTHONPATH=/opt/theirs\n"
    )
    theirs = "localhost/benchrun/with-vllm:test"
    made = "localhost/benchrun/client-on-vllm:test"
    devcluster("build", "-t", theirs, base)
    devcluster(
        *("build", "-t", made, "--build-arg", f"BASE_IMAGE={theirs}"),
        *("-f", "client-image/Dockerfile", "."),
    )
    archive = folder / "on-vllm.tar"
    devcluster("save", "--output", archive, made)
    devcluster("remove", made, theirs)
    found = unpack(archive, folder / "on-vllm")
    assert "PYTHONPATH=/opt/benchrun:/opt/theirs" in found.config["Env"]
    assert not list(
        found.root.glob("usr/local/lib/python3*/site-packages/transformers")
    )
    assert (found.root / "opt/benchrun/benchrun_client/run.py").exists()
