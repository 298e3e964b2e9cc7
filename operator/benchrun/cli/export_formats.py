"""Formats of `benchrun export`: benchrun's own, and those that other packages register as entry points."""

from __future__ import annotations

from argparse import ArgumentTypeError
from importlib.metadata import entry_points

from benchrun.cli.errors import unknown
from benchrun.report.export.formats import FORMATS, Format

GROUP = "benchrun.exports"


def export_format(name: str) -> Format:
    """The format of that name, for argparse. A package is loaded only when its format is asked for."""
    if name in FORMATS:
        return FORMATS[name]
    registered = entry_points(group=GROUP)
    if name not in registered.names:
        raise ArgumentTypeError(str(unknown("format", name, (*FORMATS, *sorted(registered.names)))))
    entry = registered[name]
    try:
        found = entry.load()
    except Exception as error:
        raise ArgumentTypeError(f"{entry.value} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Format):
        raise ArgumentTypeError(f"{entry.value} is not a {Format.__module__}.{Format.__qualname__}")
    return found
