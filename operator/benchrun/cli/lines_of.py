"""Processes whose output is read as it comes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Streaming:
    """A process, line by line; when there is no more, how it ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def lines(self) -> Iterator[str]:
        """Its output, until it ends or is ended."""
        if self._process.stdout is not None:
            yield from iter(self._process.stdout.readline, "")

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it wrote to stderr. Waits for its end."""
        said = self._process.stderr.read() if self._process.stderr is not None else ""
        return self._process.wait(), said

    def end(self) -> None:
        """Whoever reads its lines sees their end."""
        self._process.terminate()


@contextmanager
def streaming(command: Sequence[str]) -> Iterator[Streaming]:
    """The running process; it is gone when the context is left."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
    ) as process:
        try:
            yield Streaming(process)
        finally:
            process.terminate()
