"""Which of several roles stands for the server, where one line has room for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from benchrun.api.names import ANSWERING_ROLES


class HasRole(Protocol):
    """A status, figures or an edge of one role."""

    @property
    def role(self) -> str:
        """Its role."""


R = TypeVar("R", bound=HasRole)


def answering(of: Iterable[R]) -> R | None:
    """That of the servers which write answers, else the first; None: there is none."""
    listed = list(of)
    return next((each for each in listed if each.role in ANSWERING_ROLES), listed[0] if listed else None)
