"""The true figures of each finished request, as JSON lines, to check a client's figures against.

Lines are rendered when a request ends and written in batches, so that no write to a file delays a
token.
"""

import asyncio
import json
from pathlib import Path

FLUSH_SECONDS = 0.25


class RequestLog:
    """A log file; entries are in it a quarter of a second after `add`, or after `flush`."""

    def __init__(self, file: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file.open("a")
        self._loop = loop
        self._lines: list[str] = []

    def add(self, record: dict[str, object]) -> None:
        """Take one request's entry."""
        if not self._lines:
            self._loop.call_later(FLUSH_SECONDS, self.flush)
        self._lines.append(json.dumps(record, separators=(",", ":")))

    def flush(self) -> None:
        """Write all entries that were added."""
        if self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()
