"""A remark: one problem, or one fact worth knowing, in a manifest."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

Level = Literal["Error", "Warning", "Note", "NotChecked"]
"""Error: it can't run. Warning: it runs, but the answer is less than what was requested. Note: good
to know. NotChecked: this could not be checked, and why."""
LEVELS: tuple[Level, ...] = ("Error", "Warning", "Note", "NotChecked")


@dataclass(frozen=True, slots=True)
class Remark:
    """What is wrong or worth knowing, and where."""

    level: Level
    path: str  # Path of the field, as the API server names it; empty: the whole object.
    text: str


error = partial(Remark, "Error")
warning = partial(Remark, "Warning")
note = partial(Remark, "Note")
not_checked = partial(Remark, "NotChecked")
