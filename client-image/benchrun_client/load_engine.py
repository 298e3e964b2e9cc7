"""What the story of a run needs of a load engine, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from benchrun_client.contract import Engine as EngineName
from benchrun_client.engine import Instants, Load, Outcome
from benchrun_client.target import Servers


def _nothing() -> None:
    """Nobody listens."""


class LoadEngine(Protocol):
    """Sends one load after the other."""

    name: EngineName

    @property
    def instants(self) -> Instants:
        """Of the load under way, or of the last one; what is left of one that was cut short."""

    async def run(
        self,
        load: Load,
        servers: Servers,
        *,
        on_send: Callable[[], None] = _nothing,
        on_answer: Callable[[], None] = _nothing,
    ) -> Outcome:
        """Send one load; returns when every request has ended. Failed requests are in the outcome, not raised."""
