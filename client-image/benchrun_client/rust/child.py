"""The Rust client's process: begun, watched and ended.

Its result tells when requests were sent only from its own beginning. That is the line it logs right before: the instant that
line arrives here is off by what the pipe takes, and by what is left to prepare, a few milliseconds for many requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchrun_client.cgroup import throttled_periods
from benchrun_client.failures import RunFailure, shorten

BEGINNING = b"starting main benchmark run"
READING_SECONDS = 0.05
"""Between two looks at what the process has used; each costs 50 us."""
GRACE_SECONDS = 5.0
LAST_WORDS_BYTES = 4096
MAX_WORDS_CHARACTERS = 600
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the process had used at an instant (`time.perf_counter`)."""

    at: float
    cpu_seconds: float
    throttled_periods: int | None


@dataclass(slots=True)
class Watched:
    """A process that ran to its end."""

    began: float | None = None
    """When it began to send (`time.perf_counter`); None: it never said so."""
    readings: list[Reading] = field(default_factory=list)
    last_words: bytes = b""

    def heard(self, said: bytes) -> bool:
        """Keep the end of what it says. Whether this is the line it begins with."""
        heard = self.last_words + said
        self.last_words = heard[-LAST_WORDS_BYTES:]
        return self.began is None and BEGINNING in heard


async def run_to_end(
    words: Sequence[str | Path], *, environment: Mapping[str, str], on_begin: Callable[[], None]
) -> Watched:
    """Run the program; when this is cancelled the process is ended, and waited for.

    Raises:
        RunFailure: `ClientError` with its last words, if it ends with another code than 0 or never begins.
    """
    watched = Watched()
    process = await _begin(words, environment)
    reading = asyncio.create_task(_read_usage(process.pid, watched.readings))
    try:
        await _listen(process, watched, on_begin)
        code = await process.wait()
    finally:
        reading.cancel()
        if process.returncode is None:
            await _end(process)
    if code != 0 or watched.began is None:
        raise RunFailure("ClientError", f"vllm-rs ended with exit code {code}: {_sentence(watched.last_words)}")
    return watched


async def _begin(words: Sequence[str | Path], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """The process; ended again where this is cancelled while it begins."""
    beginning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            # Figures for terminals; errors go to the other stream.
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
        )
    )
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        await _end(await beginning)
        raise


async def _listen(process: asyncio.subprocess.Process, watched: Watched, on_begin: Callable[[], None]) -> None:
    assert process.stderr is not None
    while said := await process.stderr.read(65536):
        if watched.heard(said):
            watched.began = time.perf_counter()
            on_begin()


async def _read_usage(pid: int, readings: list[Reading]) -> None:
    with contextlib.suppress(OSError):
        while True:
            readings.append(Reading(time.perf_counter(), _cpu_seconds(pid), throttled_periods()))
            await asyncio.sleep(READING_SECONDS)


def _cpu_seconds(pid: int) -> float:
    """Of all its threads, in user and kernel mode."""
    # The name, in parentheses, may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _sentence(last_words: bytes) -> str:
    """The end of what it said, which is where programs say why, on one line."""
    said = " ".join(last_words.decode(errors="replace").split())
    return shorten(said[-MAX_WORDS_CHARACTERS:], MAX_WORDS_CHARACTERS) or "it said nothing"
