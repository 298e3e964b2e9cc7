"""What ends a command early."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class CommandError(RuntimeError):
    """What was asked for can't be done; the text says why."""

    code = 1
    """How the command ends."""


def unknown(what: str, name: str, known: Sequence[str]) -> CommandError:
    """A name that does not exist: the nearest ones that do, then all."""
    by_lower = {each.lower(): each for each in known}
    near = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3)]
    guess = f"; did you mean {' or '.join(near)}?" if near else "."
    return CommandError(f"there is no {what} {name!r}{guess} There are: {', '.join(known)}")
