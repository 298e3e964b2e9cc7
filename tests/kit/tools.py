"""Programs that devcluster makes, for tests without a cluster."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_MADE_BY = {"argocd-engine": "argocd"}
"""The commands of programs that `tools` leaves out."""


def tool(
    name: str,
    *arguments: str | Path,
    folder: Path | None = None,
    text: str | None = None,
) -> str:
    """What such a program says, given `text`. Fails the test when it finds something wrong."""
    done = subprocess.run(
        [program(name), *map(str, arguments)],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def program(name: str) -> str:
    """The path of such a program. Fails the test when it is missing."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    devcluster = Path(
        os.environ.get("DEVCLUSTER_CACHE") or caches / "benchrun-devcluster"
    )
    found = shutil.which(name) or shutil.which(name, path=str(devcluster / "bin"))
    if found is None:
        pytest.fail(
            f"{name} is needed, and neither on PATH nor in {devcluster / 'bin'}: python3 "
            f"devcluster {_MADE_BY.get(name, 'tools')}"
        )
    return found
