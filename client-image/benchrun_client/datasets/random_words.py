"""`random` data: prompts of random words, exact in length, none alike in its first KV block.

vLLM's own random dataset counts up through the vocabulary from a random start, so it has only as many prompts as tokens, and
two that start alike share everything; a later stage would be served from the prefix cache. Here every word is drawn. Words
that are one token each keep the count exact: what is missing or too much after counting is added or dropped as words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from benchrun_client.contract import RandomData
from benchrun_client.datasets.samples import Sample, Slot
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import Api

DISTINCT_WORDS = 8
"""No two prompts of a run share so many first words: half of vLLM's smallest KV block, for a special token or the end of a
chat template may take places in it. Prompts shorter than that fill no block, and may be alike."""
MAX_ROUNDS = 40
"""Of adding and dropping words; the first is enough where every word is one token in every place."""
BATCH = 256


class Counter(Protocol):
    """The one thing needed of a tokenizer here."""

    def count(self, texts: Sequence[str], *, api: Api) -> list[int]: ...


class RandomPrompts:
    """Writes the random prompts of one run."""

    def __init__(self, *, words: Sequence[str], counter: Counter) -> None:
        self._words = words
        self._counter = counter
        self._starts: set[tuple[str, ...]] = set()

    def write(self, slot: Slot, data: RandomData) -> tuple[Sample, ...]:
        """The samples of one stage or warm-up: a function of its seed, lengths and number alone, but for collisions.

        Raises:
            RunFailure: `InvalidPlan` when special tokens and template alone fill the prompt.
        """
        # random.Random and its integer arithmetic give the same prompts on every version of Python and numpy.
        rng = random.Random(slot.seed)
        samples: list[Sample] = []
        while len(samples) < slot.requests:
            size = min(BATCH, slot.requests - len(samples))
            prompts = self._batch(rng, size=size, data=data, api=slot.api)
            samples += (Sample(p, data.input_tokens, data.output_tokens) for p in prompts)
        return tuple(samples)

    def _batch(self, rng: random.Random, *, size: int, data: RandomData, api: Api) -> list[str]:
        overhead = self._counter.count([self._words[0]], api=api)[0] - 1
        length = data.input_tokens - overhead
        if length < 1:
            raise RunFailure(
                "InvalidPlan",
                f"inputTokens {data.input_tokens} leaves no room for a prompt: special tokens and chat template take {overhead}",
            )
        drafts = [self._draft(rng, length) for _ in range(size)]
        wrong = list(range(size))
        for _ in range(MAX_ROUNDS):
            counts = self._counter.count([" ".join(drafts[i]) for i in wrong], api=api)
            missing = {i: data.input_tokens - count for i, count in zip(wrong, counts, strict=True)}
            wrong = [i for i in wrong if missing[i]]
            if not wrong:
                return [" ".join(words) for words in drafts]
            for i in wrong:
                drafts[i] = self._adjusted(rng, drafts[i], missing[i], most=data.input_tokens)
        raise RunFailure(
            "TokenizerUnusable",
            f"cannot write prompts of exactly {data.input_tokens} tokens with this tokenizer; use a dataset of texts",
        )

    def _draft(self, rng: random.Random, length: int) -> list[str]:
        while True:
            words = rng.choices(self._words, k=length)
            if length < DISTINCT_WORDS:
                return words
            start = tuple(words[:DISTINCT_WORDS])
            if start not in self._starts:
                self._starts.add(start)
                return words

    def _adjusted(self, rng: random.Random, words: list[str], missing: int, *, most: int) -> list[str]:
        """Longer or shorter at the end, where it cannot touch what makes the prompt distinct."""
        if missing > 0:
            # A word is a token at least: more words than tokens asked for can't be right.
            return words + rng.choices(self._words, k=min(missing, max(most - len(words), 0)))
        return words[: max(len(words) + missing, 1)]
