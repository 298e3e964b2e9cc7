"""`random` data as vLLM makes it: the prompts of `vllm bench serve --dataset-name random --seed N`, token for token.

Prompt i starts at token `offset_i + i` of the vocabulary and counts up through it (`RandomDataset` in vLLM 0.32). So a seed gives the
same starts at every length, and a prompt is the beginning of the one with its number in a longer set, up to the last token or two.
"""

from __future__ import annotations

import importlib
from typing import Any

from benchrun_client.contract import RandomData
from benchrun_client.datasets.rows import Counting, Portion, Sample, Slot
from benchrun_client.failures import RunFailure

MAX_ROUNDS = 10  # Of decoding and encoding again, as in vLLM; what is then too long or too short stays so.


def vllm_samples(counter: Counting, slot: Slot | Portion, data: RandomData) -> tuple[Sample, ...]:
    """The samples of one stage, warm-up or portion: by the seed of the dataset, if it has one. A chat template is not part of the
    length, as in vLLM. Raises RunFailure: `InvalidPlan` when special tokens alone fill the prompt."""
    seed = slot.seed if data.seed is None else data.seed
    prompts = vllm_prompts(counter.tokenizer, seed=seed, requests=slot.requests, input_tokens=data.input.max)
    lengths = counter.count(prompts, api=slot.api)
    return tuple(Sample(prompt, tokens, data.output.max) for prompt, tokens in zip(prompts, lengths, strict=True))


def vllm_prompts(tokenizer: Any, *, seed: int, requests: int, input_tokens: int) -> list[str]:
    """The texts alone. `tokenizer`: one of Hugging Face."""
    numpy = importlib.import_module("numpy")
    length = input_tokens - tokenizer.num_special_tokens_to_add()
    if length < 1:
        raise RunFailure("InvalidPlan", f"inputTokens {input_tokens} leaves no room for a prompt beside special tokens")
    rng = numpy.random.default_rng(seed)
    offsets = rng.integers(0, tokenizer.vocab_size, size=requests)
    allowed = numpy.setdiff1d(numpy.arange(tokenizer.vocab_size), tokenizer.all_special_ids)
    places = numpy.arange(length)
    return [
        _of_length(tokenizer, allowed[(offset + i + places) % len(allowed)].tolist(), length, rng)
        for i, offset in enumerate(offsets)
    ]


def _of_length(tokenizer: Any, tokens: list[int], length: int, rng: Any) -> str:
    """As text that is encoded to so many tokens: cut, or filled with drawn ones (`gen_prompt_decode_to_target_len` in vLLM)."""
    for rounds_left in range(MAX_ROUNDS, -1, -1):
        prompt: str = tokenizer.decode(tokens)
        tokens = tokenizer.encode(prompt, add_special_tokens=False)
        if rounds_left == 0 or len(tokens) == length:
            break
        missing = length - len(tokens)
        tokens = (
            tokens[:length] if missing < 0 else tokens + rng.integers(0, tokenizer.vocab_size, size=missing).tolist()
        )
    return prompt
