"""`random` data: prompts of random words, exact in length, none alike in its first KV block."""

from __future__ import annotations

import random

from benchrun_client.contract import RandomData
from benchrun_client.datasets.samples import Portion, Sample, Slot
from benchrun_client.datasets.words import DISTINCT_WORDS, Draft, Start, WordWriter, batches

__all__ = ["DISTINCT_WORDS", "RandomPrompts", "Start"]


class RandomPrompts(WordWriter):
    """Writes the random prompts of one run."""

    def write(self, slot: Slot | Portion, data: RandomData) -> tuple[Sample, ...]:
        """The samples of one stage, warm-up or portion: a function of its seed, lengths and number alone, but for collisions.

        Raises:
            RunFailure: `InvalidPlan` when special tokens and template alone fill the prompt.
        """
        # random.Random and its integer arithmetic give the same prompts on every version of Python and numpy.
        rng = random.Random(slot.seed)
        length = self.room(data.input_tokens, api=slot.api, whose="inputTokens")
        samples: list[Sample] = []
        for batch in batches(range(slot.requests)):
            drafts = [Draft(self.distinct(rng, length), data.input_tokens) for _ in batch]
            prompts = self.exact(rng, drafts, api=slot.api)
            samples += (Sample(prompt, data.input_tokens, data.output_tokens) for prompt in prompts)
        return tuple(samples)
