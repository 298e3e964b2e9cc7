"""The formats of `benchrun export`. Every module of this package that calls `register` adds its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, get_args

from benchrun.report.export.encoders import Files
from benchrun.report.export.exported_run import ExportedRun

TableName = Literal["stages", "servers", "replicas", "requests"]
TABLES: tuple[TableName, ...] = get_args(TableName)


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `files` and `document` raise NotExportable."""

    summary: str
    files: Callable[[ExportedRun], Files]  # Contents for a folder.
    document: Callable[[ExportedRun, TableName], bytes]
    """For a file, or for standard output; the table is of formats that are tables."""
    is_text: bool = True


FORMATS: dict[str, Format] = {}
"""By the name that `--format` takes."""


def register(name: str, of: Format) -> None:
    """Add a format; called by the module that writes it when it is imported."""
    FORMATS[name] = of


for _module in iter_modules([__file__.rpartition("/")[0]]):
    import_module(f"{__package__}.{_module.name}")
