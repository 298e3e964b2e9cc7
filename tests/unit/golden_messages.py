"""Messages that users see, word for word, in golden files.

Other assertions look at codes, fields and numbers. After a wanted change: `UPDATE_GOLDEN=1 pytest`
with the tests that fail, in one process; then read the diff.
"""

import os
import re
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

GOLDEN = Path(__file__).parent / "cli" / "golden" / "messages.yaml"
AREAS = Path(__file__).parent / "golden"
UPDATES = bool(os.environ.get("UPDATE_GOLDEN"))
_TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + r"/\S*?/test_[^/\s]*")


@dataclass
class Running:
    """The kept messages of the test that runs, and the messages it has given."""

    file: Path = AREAS
    module: str = ""
    name: str = ""
    kept: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)


_running = Running()


def begin(item: pytest.Item) -> None:
    """Take all messages from now on for this test's, in the file of its area."""
    global _running
    area, *folders = (
        item.path.relative_to(Path(__file__).parent).with_suffix("").parts
    )
    module = ".".join(folders)
    file = AREAS / f"{area}.yaml"
    _running = Running(
        file,
        module,
        item.name,
        list(_known(file).get(module, {}).get(item.name, [])),
    )


def golden(*messages: str | None) -> None:
    """Check that these are the test's next messages.

    A temporary folder is written as FOLDER, blanks at ends of lines are left out.
    """
    for message in messages:
        assert message is not None
        lines = _TEMPORARY.sub("FOLDER", message).splitlines()
        _running.given.append("\n".join(map(str.rstrip, lines)).strip("\n"))
    if not UPDATES:
        assert _running.given == _running.kept[: len(_running.given)]


def end() -> None:
    """Check that no other message is kept for this test, or update the file."""
    if not UPDATES:
        assert _running.given == _running.kept
    elif _running.given != _running.kept:
        known = _known(_running.file)
        known.setdefault(_running.module, {})[_running.name] = _running.given
        _write(_running.file, known)


def assert_golden(surface: str, case: str, *messages: str) -> None:
    """Check that these are the messages of the case, or update the file."""
    known = _known(GOLDEN)
    if UPDATES:
        known.setdefault(surface, {})[case] = list(messages)
        _write(GOLDEN, known)
    assert known[surface][case] == list(messages)


@cache
def _known(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = (
        yaml.load(file.read_bytes(), yaml.CSafeLoader) if file.exists() else {}
    )
    return found


def _write(file: Path, known: dict[str, Any]) -> None:
    file.write_text(
        yaml.dump(known, Dumper=_Dumper, width=120, allow_unicode=True),
        encoding="utf-8",
    )
    pytest.fail(f"{file.name} was written; read its diff")


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes text of several lines as blocks."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)
