"""The files of a release, as `make release` writes them, and the command that they hold."""

import sys
import tomllib
from pathlib import Path

from kit.kubectl import command

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
REGISTRY = "registry.invalid/benchrun"
"""Where nothing can be pulled from: what runs came out of the archives."""
IMAGES = {name: f"{REGISTRY}/{name}:{VERSION}" for name in ("operator", "client")}


def make_release(folder: Path) -> Path:
    """Make a release, and return the folder of its files."""
    words = ("release", f"DIST={folder}", f"RELEASE_REGISTRY={REGISTRY}")
    command("make", f"--directory={ROOT}", *words, timeout_seconds=1200)
    return folder


def installed_command(dist: Path, folder: Path) -> Path:
    """Install the wheel of a release into an environment of its own; return its `benchrun`."""
    (wheel,) = dist.glob("*.whl")
    command(sys.executable, "-m", "venv", str(folder / "venv"))
    command(
        str(folder / "venv/bin/pip"),
        *("install", "--quiet", str(wheel)),
        timeout_seconds=300,
    )
    return folder / "venv/bin/benchrun"
