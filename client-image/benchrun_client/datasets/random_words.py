"""`random` and `prefixRepetition` data: prompts of random words, exact in length, all different.

No two prompts begin alike. vLLM's own random dataset counts up through the vocabulary from a random
start, so prompts repeat and hit the prefix cache. Here every word is drawn. With `prefixRepetition`
each stage has its own prefixes, which its requests use in turn. Each word is one token, which keeps
the lengths exact.
"""

import importlib
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import NormalDist
from typing import Any, Protocol

from benchrun_client.contract import (
    Api,
    DatasetFacts,
    DatasetFields,
    DrawnLengths,
    length_range,
)
from benchrun_client.contract.datasets import PrefixRepetitionData, RandomData
from benchrun_client.datasets.row_pools import Portion, PromptRequest, Slot
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import TokenCounter

DISTINCT_WORDS = 8
"""Number of first words by which all prompts of a run differ. It is half of vLLM's smallest KV
block, because special tokens or the end of a chat template may be in the block too. Shorter prompts
fill no block, and may be alike."""
# Of adding and dropping words; the first is enough where every word is one token in every place.
MAX_ROUNDS = 40
BATCH = 256  # Prompts written at a time: as words they take many times the memory of their text.

Start = tuple[str, ...]  # First words of a prompt.


class WordWriter:
    """A source of random prompts for one run, of which no two begin with the same words."""

    def __init__(
        self,
        *,
        words: Sequence[str],
        counter: TokenCounter,
        starts: Collection[Start] = (),
    ) -> None:
        """Create a writer; `starts` holds the first words of prompts that exist already."""
        self._words = words
        self.counter = counter
        self.starts: set[Start] = set(starts)
        self._overhead: dict[Api, int] = {}

    def words_that_fit(self, tokens: int, *, api: Api, whose: str) -> int:
        """Return how many words a prompt of `tokens` tokens can hold.

        Special tokens and chat template take the rest. Raises RunFailure `InvalidPlan` if no word
        fits; `whose` names the field in the message.
        """
        if api not in self._overhead:
            self._overhead[api] = (
                self.counter.count([self._words[0]], api=api)[0] - 1
            )
        overhead = self._overhead[api]
        if tokens <= overhead:
            raise RunFailure(
                "InvalidPlan",
                f"{whose} {tokens} leaves no room for a prompt: special tokens and chat template "
                f"take {overhead}",
            )
        return tokens - overhead

    def distinct(self, rng: random.Random, length: int) -> list[str]:
        """Draw words that begin like no others drawn before.

        A text of fewer than `DISTINCT_WORDS` words may be equal to another.
        """
        words = self.any(rng, length)
        if length >= DISTINCT_WORDS:
            while (start := tuple(words[:DISTINCT_WORDS])) in self.starts:
                words = self.any(rng, length)
            self.starts.add(start)
        return words

    def any(self, rng: random.Random, length: int) -> list[str]:
        return rng.choices(self._words, k=length)

    def exact(
        self,
        rng: random.Random,
        drafts: Iterable[tuple[list[str], int]],
        *,
        api: Api,
    ) -> Iterator[str]:
        """Yield each draft (words, tokens) as a prompt of exactly so many tokens.

        Words are added or dropped at the end. Raises RunFailure `TokenizerUnusable`.
        """
        waiting = iter(drafts)
        while batch := list(islice(waiting, BATCH)):
            yield from self._exact(
                rng,
                [words for words, _ in batch],
                [tokens for _, tokens in batch],
                api=api,
            )

    def _exact(
        self,
        rng: random.Random,
        texts: list[list[str]],
        lengths: Sequence[int],
        *,
        api: Api,
    ) -> Iterator[str]:
        wrong = list(range(len(texts)))
        for _ in range(MAX_ROUNDS):
            counts = self.counter.count(
                [" ".join(texts[i]) for i in wrong], api=api
            )
            missing = {
                i: lengths[i] - count
                for i, count in zip(wrong, counts, strict=True)
            }
            wrong = [i for i in wrong if missing[i]]
            if not wrong:
                return map(" ".join, texts)
            for i in wrong:
                texts[i] = self._adjusted(
                    rng, texts[i], missing[i], most=lengths[i]
                )
        raise RunFailure(
            "TokenizerUnusable",
            f"cannot write prompts of exactly {lengths[wrong[0]]} tokens with this tokenizer; use "
            "a dataset of texts",
        )

    def _adjusted(
        self, rng: random.Random, words: list[str], missing: int, *, most: int
    ) -> list[str]:
        """Lengthen or shorten a draft at its end, so that its distinct beginning stays."""
        if missing > 0:
            # A word is a token at least: more words than tokens requested can't be right.
            return words + rng.choices(
                self._words, k=min(missing, max(most - len(words), 0))
            )
        return words[: max(len(words) + missing, 1)]


class Outline(Protocol):
    """A request whose text is not written yet."""

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


class Recording(Protocol):
    """What was read of requests whose texts are written later."""

    def outlines(self, slot: Slot) -> Sequence[Outline]:
        """Return the requests that a stage or warm-up sends; raise RunFailure if too few."""

    def facts_of(self, portions: Sequence[Portion]) -> DatasetFacts | None:
        """Describe what was read for the portions of one workload; None if nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenKind:
    """A kind of dataset whose prompts are written of random words, while the server starts."""

    write: Callable[
        [WordWriter, Portion, Any, Sequence[Any]], tuple[PromptRequest, ...]
    ]
    """Write the requests of a portion of this dataset, by their outlines."""
    record: (
        Callable[[Any, int | None, TokenCounter, int, Collection[Api]], Recording]
        | None
    )
    """Read what gives the requests their outlines. The numbers are the tokens of the longest
    request, None if that is not known, and the most requests of a stage or warm-up; the APIs are
    those that send them. None if nothing is read, all prompts are made up."""


WRITTEN_KINDS: dict[type[DatasetFields], WrittenKind] = {}
"""Type of a dataset's model -> how it is written; each module registers its kinds here."""


def write_random(
    writer: WordWriter, slot: Slot | Portion, data: RandomData
) -> tuple[PromptRequest, ...]:
    """Build the requests of a stage, warm-up or portion.

    They depend only on its seed, lengths and number of requests. Raises RunFailure `InvalidPlan` or
    `TokenizerUnusable`.
    """
    if data.generator == "VLLM" and data.version == "0.9":
        return old_vllm_samples(writer.counter, slot, data)
    if data.generator == "VLLM":
        return vllm_samples(writer.counter, slot, data)
    # random.Random and its integer arithmetic give the same prompts on every version of Python and
    # numpy.
    rng = random.Random(slot.seed)
    lengths = drawn_lengths(data, seed=slot.seed, requests=slot.requests)
    rooms = (
        writer.words_that_fit(tokens, api=slot.api, whose="inputTokens")
        for tokens, _ in lengths
    )
    drafts = (
        (writer.distinct(rng, room), tokens)
        for room, (tokens, _) in zip(rooms, lengths, strict=True)
    )
    prompts = writer.exact(rng, drafts, api=slot.api)
    return tuple(
        PromptRequest(prompt, *each)
        for prompt, each in zip(prompts, lengths, strict=True)
    )


def drawn_lengths(
    data: RandomData, *, seed: int, requests: int
) -> list[tuple[int, int]]:
    """Draw the tokens of prompt and answer of each request.

    The result depends only on these arguments, so that compared servers with different tokenizers
    get the same lengths. A longer stage begins with the lengths of a shorter one.
    """
    rng = random.Random(f"lengths {seed}")
    return [
        (drawn(data.input, rng), drawn(data.output, rng)) for _ in range(requests)
    ]


def drawn(lengths: DrawnLengths, rng: random.Random) -> int:
    """Draw one length from the normal distribution that is cut at min and max.

    The method is inversion (Devroye 1986, II.2).
    """
    if lengths.min == lengths.max:
        return lengths.min
    normal = NormalDist(lengths.mean, lengths.stdev)
    low = normal.cdf(lengths.min - 0.5)
    high = normal.cdf(lengths.max + 0.5)
    place = low + rng.random() * (high - low)
    # Strictly between 0 and 1, where the inverse is finite.
    tokens = round(normal.inv_cdf(min(max(place, 1e-15), 1 - 1e-15)))
    return min(max(tokens, lengths.min), lengths.max)


def write_prefix_repetition(
    writer: WordWriter, portion: Portion, data: PrefixRepetitionData
) -> tuple[PromptRequest, ...]:
    """Build the requests of a portion from its seed, lengths and number of requests.

    Special tokens and chat template count as part of the prefix. Raises RunFailure `InvalidPlan` if
    they leave no room for a word.
    """
    rng = random.Random(portion.seed)
    prefix_words = writer.words_that_fit(
        data.prefix_tokens, api=portion.api, whose="prefixTokens"
    )
    prefixes = [
        writer.distinct(rng, prefix_words)
        for _ in range(min(data.prefixes, portion.requests))
    ]
    length = data.prefix_tokens + data.suffix_tokens
    words = (
        prefixes[n % len(prefixes)] + writer.any(rng, data.suffix_tokens)
        for n in range(portion.requests)
    )
    prompts = writer.exact(rng, ((each, length) for each in words), api=portion.api)
    return tuple(
        PromptRequest(
            prompt,
            length,
            data.output_tokens,
            prefix_words if n >= len(prefixes) else 0,
        )
        for n, prompt in enumerate(prompts)
    )


WRITTEN_KINDS |= {
    RandomData: WrittenKind(
        write=lambda writer, portion, data, _: write_random(writer, portion, data),
        record=None,
    ),
    PrefixRepetitionData: WrittenKind(
        write=lambda writer, portion, data, _: write_prefix_repetition(
            writer, portion, data
        ),
        record=None,
    ),
}

# `random` data as vLLM makes it: prompt i starts at token `offset_i + i` of the vocabulary and
# counts up through it (`RandomDataset` in vLLM 0.32). So a seed gives the same starts at every
# length, and a prompt is the beginning of the one with its number in a longer set, up to the last
# token or two.

VLLM_ROUNDS = 10
"""Rounds of decoding and encoding again, as in vLLM; a prompt that still has the wrong length keeps
it."""


def vllm_samples(
    counter: TokenCounter, slot: Slot | Portion, data: RandomData
) -> tuple[PromptRequest, ...]:
    """Build the requests of one stage, warm-up or portion as vLLM 0.32 makes them.

    The dataset's own seed is used if it has one. As in vLLM, the chat template is not part of the
    length. Raises RunFailure `InvalidPlan` if special tokens alone fill the prompt.
    """
    seed = slot.seed if data.seed is None else data.seed
    prompts = vllm_prompts(
        counter.tokenizer,
        seed=seed,
        requests=slot.requests,
        input_tokens=data.input.max,
    )
    lengths = counter.count(prompts, api=slot.api)
    return tuple(
        PromptRequest(prompt, tokens, data.output.max)
        for prompt, tokens in zip(prompts, lengths, strict=True)
    )


def vllm_prompts(
    tokenizer: Any, *, seed: int, requests: int, input_tokens: int
) -> list[str]:
    """Return the texts of vLLM's random prompts; `tokenizer` is a Hugging Face tokenizer.

    Raises RunFailure `InvalidPlan` if special tokens alone fill the prompt.
    """
    numpy = importlib.import_module("numpy")
    length = input_tokens - tokenizer.num_special_tokens_to_add()
    if length < 1:
        raise RunFailure(
            "InvalidPlan",
            f"inputTokens {input_tokens} leaves no room for a prompt beside special tokens",
        )
    rng = numpy.random.default_rng(seed)
    offsets = rng.integers(0, tokenizer.vocab_size, size=requests)
    allowed = numpy.setdiff1d(
        numpy.arange(tokenizer.vocab_size), tokenizer.all_special_ids
    )
    places = numpy.arange(length)
    return [
        _of_length(
            tokenizer,
            allowed[(offset + i + places) % len(allowed)].tolist(),
            length,
            rng,
        )
        for i, offset in enumerate(offsets)
    ]


def _of_length(tokenizer: Any, tokens: list[int], length: int, rng: Any) -> str:
    """Return a text that encodes to `length` tokens: the given ones, cut or filled with drawn ones.

    This is the method of `gen_prompt_decode_to_target_len` in vLLM.
    """
    for rounds_left in range(VLLM_ROUNDS, -1, -1):
        prompt: str = tokenizer.decode(tokens)
        tokens = tokenizer.encode(prompt, add_special_tokens=False)
        if rounds_left == 0 or len(tokens) == length:
            break
        missing = length - len(tokens)
        tokens = (
            tokens[:length]
            if missing < 0
            else tokens
            + rng.integers(0, tokenizer.vocab_size, size=missing).tolist()
        )
    return prompt


# The same dataset as vLLM 0.9 made it (`benchmark_serving.py` of June 2025): lengths of prompts,
# lengths of answers and offsets are three draws from one stream, and drawing from a range rejects
# some numbers. So the offsets depend on both ranges and on the number of requests.


@dataclass(frozen=True, slots=True)
class OldDraws:
    """The random draws of vLLM 0.9 for a run.

    Prompt i begins with token `offsets[i] + i` of the vocabulary, and goes on with those after it.
    """

    # Input tokens; their sum is the tool's "Total input tokens".
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    offsets: tuple[int, ...]

    def starts(self, vocabulary: int) -> tuple[int, ...]:
        """Return the first token of each prompt."""
        return tuple(
            (offset + i) % vocabulary for i, offset in enumerate(self.offsets)
        )


def old_vllm_draws(
    data: RandomData, *, seed: int, requests: int, vocabulary: int
) -> OldDraws:
    """Draw the lengths of prompts and answers, and the prompts' offsets, as vLLM 0.9 does."""
    numpy = importlib.import_module("numpy")
    assert data.input_tokens is not None
    assert data.output_tokens is not None
    stream = numpy.random.RandomState(seed)  # The generator of `numpy.random.seed`.
    inputs, outputs = (
        stream.randint(low, high + 1, size=requests).tolist()
        for low, high in (
            length_range(tokens, data.range_ratio)
            for tokens in (data.input_tokens, data.output_tokens)
        )
    )
    offsets = stream.randint(0, vocabulary, size=requests).tolist()
    return OldDraws(tuple(inputs), tuple(outputs), tuple(offsets))


def old_vllm_samples(
    counter: TokenCounter, slot: Slot | Portion, data: RandomData
) -> tuple[PromptRequest, ...]:
    """Build the requests of one stage, warm-up or portion as vLLM 0.9 made them.

    The length of a text is not corrected, so it may differ from the length drawn. Raises RunFailure
    `InvalidPlan` if the range of lengths begins below one token.
    """
    if length_range(data.input.mean, data.range_ratio)[0] < 1:
        raise RunFailure(
            "InvalidPlan",
            "inputTokens x (1 - rangeRatio) is less than one token; raise inputTokens or lower "
            "rangeRatio",
        )
    vocabulary = counter.tokenizer.vocab_size
    seed = slot.seed if data.seed is None else data.seed
    drawn = old_vllm_draws(
        data, seed=seed, requests=slot.requests, vocabulary=vocabulary
    )
    prompts = [
        counter.tokenizer.decode(
            [(start + place) % vocabulary for place in range(length)]
        )
        for start, length in zip(
            drawn.starts(vocabulary), drawn.inputs, strict=True
        )
    ]
    counts = counter.count(prompts, api=slot.api)
    return tuple(
        PromptRequest(prompt, tokens, max(output, 1))
        for prompt, tokens, output in zip(
            prompts, counts, drawn.outputs, strict=True
        )
    )
