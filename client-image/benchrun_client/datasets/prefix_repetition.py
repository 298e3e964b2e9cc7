"""`prefixRepetition` data: random prompts, many of which begin alike.

Each stage has prefixes of its own, which its requests take in turns; what follows a prefix is unique. Within a stage the prefix
cache can serve a prefix from its second request on; between stages nothing is shared.
"""

from __future__ import annotations

import random

from benchrun_client.contract import PrefixRepetitionData
from benchrun_client.datasets.samples import Portion, Sample
from benchrun_client.datasets.words import Draft, WordWriter, batches


def write_prefix_repetition(writer: WordWriter, portion: Portion, data: PrefixRepetitionData) -> tuple[Sample, ...]:
    """The samples of a portion: a function of its seed, lengths and number alone, but for collisions.

    Special tokens and template count as part of the prefix.

    Raises:
        RunFailure: `InvalidPlan` when they alone fill it.
    """
    rng = random.Random(portion.seed)
    prefix_words = writer.room(data.prefix_tokens, api=portion.api, whose="prefixTokens")
    prefixes = [writer.distinct(rng, prefix_words) for _ in range(min(data.prefixes, portion.requests))]
    length = data.prefix_tokens + data.suffix_tokens
    samples: list[Sample] = []
    for batch in batches(range(portion.requests)):
        ends = [writer.any(rng, data.suffix_tokens) for _ in batch]
        drafts = [Draft(prefixes[n % len(prefixes)] + end, length) for n, end in zip(batch, ends, strict=True)]
        for n, prompt in zip(batch, writer.exact(rng, drafts, api=portion.api), strict=True):
            samples.append(Sample(prompt, length, data.output_tokens, prefix_words if n >= len(prefixes) else 0))
    return tuple(samples)
