"""Judging in a child process, the only place where data that a tenant's pod sent is opened."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from benchrun.effects.errors import ClusterError
from benchrun.effects.turns import Places
from benchrun.judge_process.messages import (
    END,
    MAX_JUDGEMENT_BYTES,
    DocumentHead,
    Job,
    JobPart,
    SweepJob,
)

COMMAND = (sys.executable, "-s", "-P", "-m", "benchrun.judge_process")
# Limit of a job. A load point of 200,000 requests takes 208 MiB; beside it, the container's 512 MiB
# hold the operator and the process that is forked (43 MiB).
MEMORY_BYTES = 320 * 1024 * 1024
CPU_SECONDS = 60
# from the judge's start or the last judgement to this one, with the reading of what was stored
WALL_SECONDS = 300.0
# part of WALL_SECONDS for reading: the largest run's 70 MB take some 10
READING_SECONDS = 60.0
# seconds that a judge without work is kept: starting one takes a second
IDLE_SECONDS = 5.0
MAX_REASON_CHARS = 300
MAX_WORDS_BYTES = 4096
_Parts = AsyncGenerator[JobPart, None]
A = TypeVar("A", bound=BaseModel)
_REAP_SECONDS = 0.02
_REAP_TRIES = 100


class NotJudged(Exception):
    """No judgement came; the text says why."""


class TooSlow(ClusterError):
    """The data to judge could not be read in time; the job may be retried after other jobs."""


class _Gone(Exception):
    """The judge process has closed the pipe from which it reads."""


@dataclass(kw_only=True, eq=False)
class JudgeChild:
    """The judge process: started when needed, with one job at a time.

    Each job runs in a fork of its own that has the limits.
    """

    memory_bytes: int = MEMORY_BYTES
    cpu_seconds: int = CPU_SECONDS
    wall_seconds: float = WALL_SECONDS
    reading_seconds: float = READING_SECONDS
    idle_seconds: float = IDLE_SECONDS
    command: Sequence[str] = COMMAND

    def __post_init__(self) -> None:
        self._turn = Places(1)
        self._process: Process | None = None
        self._leave: asyncio.TimerHandle | None = None

    async def judge(
        self, job: Job | SweepJob, parts: _Parts, answer: type[A]
    ) -> tuple[A, bytes]:
        """Return the judgement of a run, or the table of a sweep; namespaces take turns.

        The second value is the packed result document of a run, which the operator never opens; it
        is empty for a sweep.

        Raises NotJudged or TooSlow, and passes on exceptions from reading the parts.
        """
        async with self._turn.taken(job.namespace):
            self._stay()
            limit = asyncio.timeout(self.wall_seconds)
            try:
                async with limit:
                    return await self._judged(job, parts, answer)
            except BaseException as error:
                await self.close()  # the judge is in the middle of a job
                if isinstance(error, TimeoutError) and limit.expired():
                    raise NotJudged(
                        f"the judge did not finish within {self.wall_seconds:g} s"
                    ) from None
                raise
            finally:
                if self._process is not None:
                    self._leave = asyncio.get_running_loop().call_later(
                        self.idle_seconds, self._let_go
                    )

    async def _judged(
        self, job: Job | SweepJob, parts: _Parts, answer: type[A]
    ) -> tuple[A, bytes]:
        process = await self._started()
        with contextlib.suppress(
            _Gone
        ):  # the cause of its end is on its standard error
            await _send(process, job.line())
            await self._send_all(process, parts)
        return await self._read(process, answer)

    async def _send_all(self, process: Process, parts: _Parts) -> None:
        limit = asyncio.timeout(self.reading_seconds)
        try:
            async with limit, contextlib.aclosing(parts):
                async for part in parts:
                    await _send(process, part.head.line())
                    await _send(process, part.data)
            await _send(process, END)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TooSlow(
                f"the records were not read within {self.reading_seconds:g} s"
            ) from None

    async def _read(self, process: Process, answer: type[A]) -> tuple[A, bytes]:
        assert process.stdout is not None
        try:
            found = _parsed(await process.stdout.readuntil(b"\n"), answer)
            head = _parsed(await process.stdout.readuntil(b"\n"), DocumentHead)
            document = await process.stdout.readexactly(head.size)
        except asyncio.IncompleteReadError:
            raise NotJudged(await _last_words(process)) from None
        except asyncio.LimitOverrunError:
            raise NotJudged(
                f"the judgement is larger than {MAX_JUDGEMENT_BYTES} bytes"
            ) from None
        if not head.matches(document):
            raise NotJudged(
                "the digest of the result document does not match its bytes"
            )
        return found, document

    async def _started(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self.close()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                str(self.memory_bytes),
                str(self.cpu_seconds),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=MAX_JUDGEMENT_BYTES,
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise NotJudged(
                f"the judge can't be started: {error.strerror}"
            ) from error
        return self._process

    async def close(self) -> None:
        """Kill the process, even during a job."""
        self._stay()
        process = self._process
        self._process = None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Read to their ends, so that nothing keeps the pipes open: nothing writes any more.
        await asyncio.gather(
            *(
                pipe.read()
                for pipe in (process.stdout, process.stderr)
                if pipe is not None
            )
        )
        await process.wait()
        await _reap(process.pid)

    def _stay(self) -> None:
        if self._leave is not None:
            self._leave.cancel()
            self._leave = None

    def _let_go(self) -> None:
        """Close the process's input; at its end the process exits by itself."""
        process = self._process
        self._process = None
        if process is not None and process.stdin is not None:
            process.stdin.close()


def _parsed(line: bytes, model: type[A]) -> A:
    """Parse the line that the judge process wrote. Raises NotJudged."""
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        raise NotJudged(
            "the answer of the judge process is not a judgement "
            f"({error.error_count()} errors)"
        ) from None


async def _send(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(data)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError) as error:
        raise _Gone from error


async def _last_words(process: Process) -> str:
    """Return why the judge ended: its last line on standard error, printable and bounded."""
    assert process.stderr is not None
    words = b""
    while len(words) < MAX_WORDS_BYTES and (
        more := await process.stderr.read(MAX_WORDS_BYTES)
    ):
        words += more
    text = words.decode(errors="replace").strip()
    last = (
        text.splitlines()[-1]
        if text
        else "the judge ended without an error message"
    )
    return "".join(c if c.isprintable() else "?" for c in last)[:MAX_REASON_CHARS]


async def _reap(group: int) -> None:
    """Wait for the killed process's children, which the kernel hands to the operator.

    The operator is the first process of the container.
    """
    for _ in range(_REAP_TRIES):
        try:
            pid, _ = os.waitpid(-group, os.WNOHANG)  # noqa: ASYNC222
        except ChildProcessError:
            return
        if pid == 0:
            await asyncio.sleep(_REAP_SECONDS)


def _environment() -> dict[str, str]:
    """Return the judge's environment, without the operator's variables (tokens, addresses)."""
    path = os.pathsep.join(place for place in sys.path if place.startswith("/"))
    return {
        "PATH": os.defpath,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
    }
