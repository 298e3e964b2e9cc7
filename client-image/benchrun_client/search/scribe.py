"""Asking for the prompts of the next probe, written in a process of its own, while the current one is measured.

Most of the work is the tokenizer's and holds the interpreter lock: a thread would stand in the way of the first tokens.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchrun_client.contract import Stage, Target
from benchrun_client.datasets.random_words import Start
from benchrun_client.datasets.samples import Sample
from benchrun_client.failures import Reason, RunFailure
from benchrun_client.piped import Piped


@dataclass(frozen=True, slots=True)
class Desk:
    """What a scribe needs to write, beside the tokenizer."""

    words: tuple[str, ...]
    starts: Collection[Start]
    """First words of all prompts there are: no other may begin so."""


@dataclass(frozen=True, slots=True)
class Written:
    """Prompts of a stage, and the digest of as many of them as it is known to need."""

    samples: tuple[Sample, ...]
    digests: dict[int, str]
    """By number of requests."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why nothing was written: a `RunFailure`, in a form that crosses the pipe."""

    reason: Reason
    message: str


class Scribe:
    """Our end of the pipe."""

    def __init__(self, process: Piped) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Scribe:
        """Start the other process."""
        return cls(await Piped.start("benchrun_client.search.writing", name="prompt writer"))

    async def read_tokenizer(self, target: Target) -> None:
        """Load the tokenizer, which takes seconds: the first question.

        Raises:
            RunFailure: the other process died, or told a failure.
        """
        _unwrapped(await self._process.ask(pickle.dumps(target)))

    async def sit_down(self, desk: Desk) -> None:
        """Hand over what is needed: the second question.

        Raises:
            RunFailure: the other process died, or told a failure.
        """
        _unwrapped(await self._process.ask(pickle.dumps(desk)))

    async def write(self, stage: Stage, lengths: Sequence[int]) -> bytes:
        """Prompts of a stage, packed. `lengths`: how many of them may be sent, the greatest number last.

        Raises:
            RunFailure: the other process died.
        """
        return await self._process.ask(pickle.dumps((stage, tuple(lengths))))

    async def stop(self) -> None:
        """End the other process."""
        await self._process.stop()


def opened(answer: bytes) -> Written:
    """What the scribe wrote.

    Raises:
        RunFailure: it could not, and why.
    """
    written = _unwrapped(answer)
    assert isinstance(written, Written)
    return written


def _unwrapped(answer: bytes) -> object:
    # Our own process wrote these bytes.
    told = pickle.loads(answer)
    if isinstance(told, Trouble):
        raise RunFailure(told.reason, told.message)
    return told
