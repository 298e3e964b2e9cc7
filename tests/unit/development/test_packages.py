"""Packages that are imported as one: a name is that of the module which defines it, whatever other
modules import."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = (
    "benchrun.api",
    "benchrun.api.sweep",
    "benchrun.decide",
    "benchrun.effects",
    "benchrun.measure",
    "benchrun.observe",
    "benchrun.plan",
    "benchrun.report.html",
    "benchrun.sizing",
    "benchrun_client.contract",
)


def body_of(module: ModuleType) -> list[ast.stmt]:
    assert module.__file__ is not None
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body


def defined_in(module: ModuleType) -> Iterator[str]:
    for node in body_of(module):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_of_a_package_is_what_its_module_defines(package: str) -> None:
    whole = importlib.import_module(package)
    modules = [
        importlib.import_module(node.module)
        for node in body_of(whole)
        if isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*"
    ]
    assert modules
    hidden = [
        f"{module.__name__}.{name}"
        for module in modules
        for name in defined_in(module)
        if not name.startswith("_")
        and name != "logger"
        and getattr(whole, name) is not getattr(module, name)
    ]
    assert hidden == []
