"""The process that writes prompts: the other end of `PromptWriter`'s pipe."""

from __future__ import annotations

import os
import pickle

from benchrun_client.contract import RandomData, Stage, Target
from benchrun_client.datasets.random_words import RandomPrompts
from benchrun_client.datasets.samples import prompts_digest
from benchrun_client.failures import RunFailure
from benchrun_client.processes import serve
from benchrun_client.search.scribe import WriterInput, Written
from benchrun_client.tokenizer import TokenCounter, load_tokenizer


class Writing:
    """Answers the questions of `PromptWriter`, in its order."""

    def __init__(self) -> None:
        self._counter: TokenCounter | None = None
        self._prompts: RandomPrompts | None = None

    def answer(self, question: bytes) -> bytes:
        """Packed, as the question is; a failure of the run is an answer, too: its reason and message."""
        try:
            return pickle.dumps(self._answer(pickle.loads(question)))
        except RunFailure as failure:
            return pickle.dumps((failure.reason, failure.message))

    def _answer(self, question: Target | WriterInput | tuple[Stage, tuple[int, ...]]) -> Written | None:
        if isinstance(question, Target):
            self._counter = load_tokenizer(question)
            return None
        if isinstance(question, WriterInput):
            assert self._counter is not None
            self._prompts = RandomPrompts(words=question.words, counter=self._counter, starts=question.starts)
            return None
        stage, lengths = question
        assert self._prompts is not None
        assert isinstance(stage.data, RandomData)
        samples = self._prompts.write(stage.model_copy(update={"requests": lengths[-1]}), stage.data)
        return Written(samples, {length: prompts_digest(samples[:length]) for length in lengths})


if __name__ == "__main__":
    # Tokenizers would take every core there is, while the load is measured on them.
    os.environ["RAYON_NUM_THREADS"] = "1"
    # To load the tokenizer, while vLLM is imported.
    serve(Writing().answer, urgent=1)
