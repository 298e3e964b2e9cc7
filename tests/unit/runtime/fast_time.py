"""An event loop whose time jumps to the next timer instead of waiting for it.

Hours pass in milliseconds.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _JumpingSelector(selectors.SelectSelector):
    """A selector that never waits, and adds up how long it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_seconds = 0.0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everything waits for something that never comes")
        if not ready and timeout is not None and timeout > 0:
            self.passed_seconds += timeout
        return ready


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at 0 and takes no time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_seconds

    def busy(self, seconds: float) -> None:
        """Let so much time pass without doing what is due, as during one long computation."""
        self._jumping.passed_seconds += seconds


def run_fast(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in jumping time; fail when nothing is left to happen."""
    with asyncio.Runner(loop_factory=FastLoop) as runner:
        return runner.run(work)


def in_fast_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Decorate a test to run in a loop of its own, in jumping time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_fast(test(*args, **kwargs))

    return run


def now() -> float:
    """Return the seconds that have passed in the running loop."""
    return asyncio.get_running_loop().time()


async def passing(seconds: float) -> None:
    """Return once so much time has passed, with everything done that was due until then.

    This does not wait in real time; a loop whose time is real is refused.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FastLoop), "only jumping time may be let pass"
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed
