"""Code that is given to another interpreter as a string: no type checker reads it."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from unit.development.commands import ROOT

_IMPORT = re.compile(
    r"^\s*from (benchrun(?:_client|_simulator)?[\w.]*) import (\([^)]*\)|[^\n;]+)",
    re.MULTILINE,
)
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_STRINGS = re.compile(
    rf"#[^\n]*|(?:{_STRING.pattern})(?:\s*(?:{_STRING.pattern}))*", re.DOTALL
)
"""A string with those that follow it at once; comments are passed over, they may have a quote."""
_PLACES = ("tests", "benchmarks", "devcluster", "dev")


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Each module and name that the strings of a Python file import."""
    for found in _STRINGS.finditer(text):
        pieces = (each.strip("\"'") for each in _STRING.findall(found.group()))
        for module, names in _IMPORT.findall("".join(pieces).replace("\\n", "\n")):
            for name in names.strip("()").split(","):
                if name.strip():
                    yield module, name.split()[0]


def is_there(module: str, name: str) -> bool:
    found = import_module(module)
    is_package = hasattr(found, "__path__")
    return hasattr(found, name) or (
        is_package and find_spec(f"{module}.{name}") is not None
    )


def test_what_they_import_is_there() -> None:
    files = {
        str(path.relative_to(ROOT)): names
        for place in _PLACES
        for path in sorted(Path(ROOT, place).rglob("*.py"))
        if (names := sorted(set(imported(path.read_text()))))
    }
    assert ("benchrun_client", "light_imports") in files[
        "tests/unit/client/test_light_imports.py"
    ]
    missing = {
        file: [each for each in names if not is_there(*each)]
        for file, names in files.items()
    }
    assert {file: names for file, names in missing.items() if names} == {}
