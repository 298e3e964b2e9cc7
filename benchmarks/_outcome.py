"""The end of a benchmark: its progress lines, its figures and its limits.

Progress goes to standard error, the figures as one JSON object to standard output.
"""

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
        """Yield a line for every limit that is not kept."""


class NotAsExpected(AssertionError):
    """Something that must hold at any speed did not."""


def measured(measuring: Coroutine[Any, Any, Figures]) -> int:
    """Measure, print the figures, and compare them with the limits.

    Return the exit status: 0, 1 when a limit is not kept, 2 when something went wrong.
    """
    # A SIGTERM also cleans up what was begun.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        figures = asyncio.run(measuring)
    except (NotAsExpected, RuntimeError, OSError) as error:
        say(f"{type(error).__name__}: {error}")
        return 2
    return finish(figures)


def say(what: str) -> None:
    """Print a line of progress."""
    print(
        f"{time.monotonic() - _BEGAN:7.1f} s  {what}", file=sys.stderr, flush=True
    )


def beyond(
    figures: Figures,
    *,
    below: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
) -> Iterator[str]:
    """Yield a line for each of these limits that is not kept; limits are keyed by figure name.

    `below` limits are exclusive upper bounds, `at_most` inclusive ones, `at_least` inclusive lower
    bounds.
    """
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
    """Print the figures and the limits that are not kept; return 1 if there are any, else 0."""
    print(json.dumps(asdict(figures)), flush=True)
    lines = tuple(figures.beyond_limits())
    for line in lines:
        say(f"limit not kept: {line}")
    return 1 if lines else 0
