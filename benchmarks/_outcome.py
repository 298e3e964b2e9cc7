"""How a benchmark ends: progress on standard error, its figures as one JSON object on standard
output, and its limits."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import Field, asdict
from typing import Any, ClassVar, Protocol

_BEGAN = time.monotonic()


class Figures(Protocol):
    """A dataclass whose field names are the JSON keys."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def beyond_limits(self) -> Iterator[str]:
        """Every limit that is not kept."""


class NotAsExpected(AssertionError):
    """Something that must hold at any speed did not."""


def measured(measuring: Coroutine[Any, Any, Figures]) -> int:
    """Measure, print, and compare with the limits. Return the exit status: 1 when a limit is not
    kept, 2 when something went wrong."""
    # What was begun is cleaned up when the process is told to end, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        figures = asyncio.run(measuring)
    except (NotAsExpected, RuntimeError, OSError) as error:
        say(f"{type(error).__name__}: {error}")
        return 2
    return finish(figures)


def say(what: str) -> None:
    """Print a line of progress."""
    print(f"{time.monotonic() - _BEGAN:7.1f} s  {what}", file=sys.stderr, flush=True)


def beyond(
    figures: Figures,
    *,
    below: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
) -> Iterator[str]:
    """Every one of these limits that is not kept; by the name of the figure."""
    for name, limit in (below or {}).items():
        if (found := getattr(figures, name)) >= limit:
            yield f"{name} {found} is not below {limit}"
    for name, limit in (at_most or {}).items():
        if (found := getattr(figures, name)) > limit:
            yield f"{name} {found} is above {limit}"
    for name, limit in (at_least or {}).items():
        if (found := getattr(figures, name)) < limit:
            yield f"{name} {found} is below {limit}"


def finish(figures: Figures) -> int:
    """Print the figures and the limits that are not kept; 1 where there is one."""
    print(json.dumps(asdict(figures)), flush=True)
    lines = tuple(figures.beyond_limits())
    for line in lines:
        say(f"limit not kept: {line}")
    return 1 if lines else 0
