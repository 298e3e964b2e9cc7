"""Code that is given to another interpreter as a string: no type checker reads it."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from unit.development.commands import ROOT

_IMPORT = re.compile(
    r"^\s*from (benchrun(?:_client|_simulator)?[\w.]*) import (\([^)]*\)|[^\n;]+)",
    re.MULTILINE,
)
_PLACES = ("tests", "benchmarks", "devcluster", "dev")


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Each module and name that the strings of a Python file import."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for module, names in _IMPORT.findall(node.value):
                for name in names.strip("()").split(","):
                    if name.strip():
                        yield module, name.split()[0]


FILES = {
    str(path.relative_to(ROOT)): names
    for place in _PLACES
    for path in sorted(Path(ROOT, place).rglob("*.py"))
    if (names := sorted(set(imported(path.read_text()))))
}


def is_there(module: str, name: str) -> bool:
    found = import_module(module)
    is_package = hasattr(found, "__path__")
    return hasattr(found, name) or (
        is_package and find_spec(f"{module}.{name}") is not None
    )


@pytest.mark.parametrize("file", FILES)
def test_what_it_imports_is_there(file: str) -> None:
    assert [each for each in FILES[file] if not is_there(*each)] == []
