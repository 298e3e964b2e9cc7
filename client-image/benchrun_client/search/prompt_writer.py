"""Writing the prompts of the next probe in a process of its own, while the current one is measured.

Most of the work is the tokenizer's and holds the interpreter lock: a thread would stand in the way of the first tokens.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Collection, Sequence
from typing import Any

from benchrun_client.contract import RandomData, Stage, Target
from benchrun_client.datasets.random_words import RandomPrompts, Start
from benchrun_client.datasets.samples import Sample, prompts_digest
from benchrun_client.failures import RunFailure
from benchrun_client.processes import ChildProcess, serve
from benchrun_client.tokenizer import TokenCounter, load_tokenizer

Written = tuple[tuple[Sample, ...], dict[int, str]]
"""Prompts of a stage, and the digest of as many of them as it is known to need, by number of requests."""


class PromptWriter(ChildProcess):
    """Our end of the pipe. Every method raises `RunFailure` where the other process died."""

    module, name = "benchrun_client.search.prompt_writer", "prompt writer"

    async def read_tokenizer(self, target: Target) -> None:
        """Load the tokenizer, which takes seconds: the first question. Raises `RunFailure` where it can't be loaded."""
        opened(await self.ask(pickle.dumps(target)))

    async def prepare(self, words: tuple[str, ...], starts: Collection[Start]) -> None:
        """Hand over what is needed: the second question. `starts`: first words of all prompts; no other may begin so."""
        opened(await self.ask(pickle.dumps((words, tuple(starts)))))

    async def write(self, stage: Stage, lengths: Sequence[int]) -> bytes:
        """Prompts of a stage, packed. `lengths`: how many of them may be sent, the greatest number last."""
        return await self.ask(pickle.dumps((stage, tuple(lengths))))


def opened(answer: bytes) -> Written | None:
    """An answer of the other process; None: there was nothing to write. Raises RunFailure: it failed, and why."""
    # Our own process wrote these bytes.
    written, failure = pickle.loads(answer)
    if failure is not None:
        raise RunFailure(*failure)
    return written  # type: ignore[no-any-return]


class WriterProcess:
    """The other end: answers the questions of `PromptWriter`, in its order."""

    _counter: TokenCounter
    _prompts: RandomPrompts

    def answer(self, question: bytes) -> bytes:
        """Packed, as the question is: what was written, or the reason and message of a failure."""
        try:
            return pickle.dumps((self._answer(pickle.loads(question)), None))
        except RunFailure as failure:
            return pickle.dumps((None, (failure.reason, failure.message)))

    def _answer(self, question: Any) -> Written | None:
        if isinstance(question, Target):
            self._counter = load_tokenizer(question)
            return None
        first, second = question
        if not isinstance(first, Stage):
            self._prompts = RandomPrompts(words=first, counter=self._counter, starts=second)
            return None
        assert isinstance(first.data, RandomData)
        samples = self._prompts.write(first.model_copy(update={"requests": second[-1]}), first.data)
        return samples, {length: prompts_digest(samples[:length]) for length in second}


if __name__ == "__main__":
    # Tokenizers would take every core there is, while the load is measured on them.
    os.environ["RAYON_NUM_THREADS"] = "1"
    # To load the tokenizer, while vLLM is imported.
    serve(WriterProcess().answer, urgent=1)
