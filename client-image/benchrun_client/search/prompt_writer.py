"""The prompts of a search's next stages, written in another process while a stage is measured.

Most of the work is done by the tokenizer, which holds the interpreter lock: in a thread it would
make tokens of the measured stage look late.
"""

import asyncio
import os
import pickle
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from benchrun_client.contract import Stage, Target
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.random_words import Start, WordWriter, write_random
from benchrun_client.datasets.row_pools import (
    PromptRequest,
    prompts_digest,
    with_template,
)
from benchrun_client.failures import RunFailure
from benchrun_client.processes import ChildProcess, serve
from benchrun_client.tokenizer import TokenCounter, load_tokenizer

Written = tuple[tuple[PromptRequest, ...], dict[int, str]]
"""The prompts of a stage, and for each number of requests that may be needed the digest of so many
prompts."""


class PromptWriter(ChildProcess):
    """The client's end of the pipe to the process that writes prompts.

    Every method raises RunFailure if the writer process died.
    """

    module = "benchrun_client.search.prompt_writer"
    name = "prompt writer"

    async def read_tokenizer(self, target: Target) -> None:
        """Make the writer process load the tokenizer, which takes seconds; call this first.

        Raises RunFailure if it cannot be loaded.
        """
        opened(await self.ask(pickle.dumps(target)))

    async def prepare(
        self, words: tuple[str, ...], starts: Collection[Start]
    ) -> None:
        """Hand the vocabulary to the writer process; call this second.

        `starts` holds the first words of the prompts that exist already. No other prompt may begin
        with them.
        """
        opened(await self.ask(pickle.dumps((words, tuple(starts)))))

    async def write(self, stage: Stage, lengths: Sequence[int]) -> bytes:
        """Write the prompts of a stage and return them packed.

        `lengths` holds the numbers of prompts that may be sent, the greatest last.
        """
        return await self.ask(pickle.dumps((stage, tuple(lengths))))


def opened(answer: bytes) -> Written | None:
    """Unpack an answer of the writer process; None if there was nothing to write.

    Raises RunFailure with the reason if the writer process failed.
    """
    # Our own process wrote these bytes.
    written, failure = pickle.loads(answer)
    if failure is not None:
        raise RunFailure(*failure)
    return written  # type: ignore[no-any-return]


class WriterProcess:
    """The writer process's end of the pipe: it answers the questions of `PromptWriter`."""

    _counter: TokenCounter
    _prompts: WordWriter

    def answer(self, question: bytes) -> bytes:
        """Return the packed answer: what was written, or a failure with reason and message."""
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
            self._prompts = WordWriter(
                words=first, counter=self._counter, starts=second
            )
            return None
        assert isinstance(first.data, RandomData)
        written = write_random(
            self._prompts,
            first.model_copy(
                update={"requests": second[-1] * first.asked.texts_a_request}
            ),
            first.data,
        )
        samples = with_template(written, first, self._counter)
        return samples, {
            length: prompts_digest(samples[:length]) for length in second
        }


Write = Callable[[Stage, Sequence[int]], Future[bytes]]
"""Begin to write the prompts of a stage; the numbers of requests that may be sent are given."""


@dataclass(frozen=True, slots=True)
class StagePrompts:
    """The prompts that a stage sends, and the digest of these prompts."""

    samples: Sequence[PromptRequest]
    digest: str


class SearchPrompts:
    """The prompts of stages that are chosen while others are measured.

    Prompts from a file and those of the first stage exist from the beginning; the others are
    written while stages are measured.
    """

    def __init__(
        self, drawn: Mapping[str, Sequence[PromptRequest]], write: Write | None
    ) -> None:
        self._drawn = drawn
        self._write = write
        self._writing: dict[str, Future[bytes]] = {}

    def write_ahead(self, may_follow: Iterable[Stage]) -> None:
        """Begin to write the prompts of every stage that may follow.

        Prompts that can no longer be needed are dropped, because they may be large.
        """
        following: dict[str, list[Stage]] = {}
        for stage in may_follow:
            following.setdefault(stage.id, []).append(stage)
        for stage_id in self._writing.keys() - following.keys():
            del self._writing[stage_id]
        for stage_id, stages in following.items():
            if (
                self._write is not None
                and stage_id not in self._drawn
                and stage_id not in self._writing
            ):
                lengths = sorted({stage.requests for stage in stages})
                self._writing[stage_id] = self._write(stages[0], lengths)

    async def take(self, stage: Stage) -> StagePrompts:
        """Return the prompts of a stage; raise RunFailure if they could not be written."""
        if stage.id not in self._writing and stage.id not in self._drawn:
            # Not expected to follow, as where one more repeat has become too long for the budget.
            self.write_ahead([stage])
        if stage.id not in self._writing:
            samples = self._drawn[stage.id][: stage.requests]
            return StagePrompts(samples, prompts_digest(samples))
        written = opened(await asyncio.wrap_future(self._writing.pop(stage.id)))
        assert written is not None
        samples, digests = written
        return StagePrompts(samples[: stage.requests], digests[stage.requests])


if __name__ == "__main__":
    # Tokenizers would take every core there is, while the load is measured on them.
    os.environ["RAYON_NUM_THREADS"] = "1"
    # To load the tokenizer, while vLLM is imported.
    serve(WriterProcess().answer, urgent=1)
