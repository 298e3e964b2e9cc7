"""From a text to a request: counted as the server will, and left out where the model can't take it."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun_client.datasets.counting import Counting
from benchrun_client.datasets.rows import TOO_LONG
from benchrun_client.datasets.samples import Sample
from benchrun_client.tokenizer import Api


@dataclass(frozen=True, slots=True)
class Fitting:
    """What all requests of a portion have in common."""

    counter: Counting
    api: Api
    context_tokens: int | None
    """Longest request that the model takes; None: not known yet."""
    repeated_tokens: int
    """What every row of the file begins with."""

    def request(self, prompt: str, *, output_tokens: int) -> Sample | str:
        """The request, or the reason why the row is left out."""
        tokens = self.counter.count([prompt], api=self.api)[0]
        if self.context_tokens is not None and tokens + output_tokens > self.context_tokens:
            return TOO_LONG
        return Sample(prompt, tokens, output_tokens, min(self.repeated_tokens, tokens))
