"""The project's own commands, started as a person would.

No variable that a `make` around these tests has set reaches them.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
OF_AN_OUTER_MAKE = (
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "CI",
    "CLUSTER",
    "EXAMPLE",
    "SIMULATOR",
    "HELM_FLAGS",
)


def typed(
    *words: str, folder: Path = ROOT, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables set, and return the completed process."""
    outside = {
        name: value
        for name, value in os.environ.items()
        if name not in OF_AN_OUTER_MAKE and not name.endswith("_IMAGE")
    }
    return subprocess.run(
        words,
        cwd=folder,
        env=outside | dict(settings or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
