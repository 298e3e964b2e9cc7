"""One thing worth saying about a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["Error", "Warning", "Note", "NotChecked"]
"""Error: it can't run as it is. Warning: it runs, and the answer is less than what was asked for. Note: good to know.
NotChecked: this could not be looked into, and why."""
LEVELS: tuple[Level, ...] = ("Error", "Warning", "Note", "NotChecked")


@dataclass(frozen=True, slots=True)
class Remark:
    """What is wrong or worth knowing, and where."""

    level: Level
    path: str
    """Field, as the API server names it; empty for the whole object."""
    text: str


def error(path: str, text: str) -> Remark:
    """It can't run as it is."""
    return Remark("Error", path, text)


def warning(path: str, text: str) -> Remark:
    """It runs, and the answer is less than what was asked for."""
    return Remark("Warning", path, text)


def note(path: str, text: str) -> Remark:
    """Good to know."""
    return Remark("Note", path, text)


def not_checked(path: str, text: str) -> Remark:
    """It could not be looked into."""
    return Remark("NotChecked", path, text)
