"""The truth about each finished request, as JSON lines: what a client's figures can be held
against.

Lines are rendered when a request ends and written in batches, so that no write to a file delays a
token."""

import asyncio
import json
from pathlib import Path

FLUSH_SECONDS = 0.25


class RequestLog:
    """Appends to a file; what was added is there a quarter of a second later, or after `flush`."""

    def __init__(self, file: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file.open("a")
        self._loop = loop
        self._lines: list[str] = []

    def add(self, record: dict[str, object]) -> None:
        """Take one request's line."""
        if not self._lines:
            self._loop.call_later(FLUSH_SECONDS, self.flush)
        self._lines.append(json.dumps(record, separators=(",", ":")))

    def flush(self) -> None:
        """Write down all that was added."""
        if self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()
