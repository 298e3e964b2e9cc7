"""Writing the prompts of the next probe in a process of its own, while the current one is measured.

Most of the work is the tokenizer's and holds the interpreter lock: a thread would stand in the way of the first tokens.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun_client.contract import Stage, Target
from benchrun_client.datasets.random_words import Start
from benchrun_client.datasets.samples import Sample
from benchrun_client.failures import RunFailure
from benchrun_client.processes import ChildProcess


@dataclass(frozen=True, slots=True)
class WriterInput:
    """What is needed to write, beside the tokenizer."""

    words: tuple[str, ...]
    starts: Collection[Start]
    """First words of all prompts there are: no other may begin so."""


@dataclass(frozen=True, slots=True)
class Written:
    """Prompts of a stage, and the digest of as many of them as it is known to need."""

    samples: tuple[Sample, ...]
    digests: dict[int, str]
    """By number of requests."""


class PromptWriter:
    """Our end of the pipe. Every method raises `RunFailure` where the other process died."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> PromptWriter:
        """Start the other process."""
        return cls(await ChildProcess.start("benchrun_client.search.writing", name="prompt writer"))

    async def read_tokenizer(self, target: Target) -> None:
        """Load the tokenizer, which takes seconds: the first question. Raises `RunFailure` where it can't be loaded."""
        opened(await self._process.ask(pickle.dumps(target)))

    async def prepare(self, writer_input: WriterInput) -> None:
        """Hand over what is needed: the second question."""
        opened(await self._process.ask(pickle.dumps(writer_input)))

    async def write(self, stage: Stage, lengths: Sequence[int]) -> bytes:
        """Prompts of a stage, packed. `lengths`: how many of them may be sent, the greatest number last."""
        return await self._process.ask(pickle.dumps((stage, tuple(lengths))))

    async def stop(self) -> None:
        """End the other process."""
        await self._process.stop()


def opened(answer: bytes) -> Written | None:
    """An answer of the other process; None: there was nothing to write.

    Raises:
        RunFailure: it failed, and why.
    """
    # Our own process wrote these bytes.
    written: Written | tuple[Any, str] | None = pickle.loads(answer)
    if isinstance(written, tuple):
        raise RunFailure(*written)
    return written
