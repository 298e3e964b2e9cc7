"""An event loop for what takes long only by waiting."""

import asyncio
from collections.abc import Callable
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next instant at which something is due."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        select: Callable[[float | None], Any] = selector.select

        def jumping(timeout: float | None) -> Any:
            assert timeout is not None, "nothing is due any more"
            self._now += timeout
            return select(0)

        selector.select = jumping

    def time(self) -> float:
        return self._now
