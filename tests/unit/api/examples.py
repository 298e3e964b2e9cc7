"""Every object of every file in `examples/`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[3] / "examples"
FILES = sorted(FOLDER.glob("*.yaml"))


@dataclass(frozen=True)
class Example:
    """One object, and the file it is in."""

    file: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


EXAMPLES = [
    Example(path.name, body)
    for path in FILES
    for body in yaml.load_all(path.read_bytes(), yaml.CSafeLoader)
]
EACH = [
    pytest.param(example, id=f"{example.file}:{example.kind}:{example.name}")
    for example in EXAMPLES
]
