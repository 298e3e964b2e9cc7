"""What a dataset gives: prompts with lengths, for every part of the run that sends requests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from benchrun_client.contract import Data, Stage, Warmup
from benchrun_client.tokenizer import Api

Slot = Stage | Warmup
"""A part of the run that sends requests: both kinds name their data, seed, API and number of requests."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Requests of one dataset: a slot, or a dataset's share of one."""

    workload: str
    part: int
    """Position in a mix; 0 for the only one."""
    data: Data
    requests: int
    seed: int
    api: Api


@dataclass(frozen=True, slots=True)
class Sample:
    """One request to be: a prompt and the lengths we expect the server to count."""

    prompt: str
    input_tokens: int
    output_tokens: int
    repeated_tokens: int = 0
    """How many of the input tokens the dataset sends again on purpose, beyond what every prompt begins with."""
    at_seconds: float | None = None
    """When it is due, from the first of its stage on, as recorded; None: the load says."""


def prompts_digest(samples: Sequence[Sample]) -> str:
    """SHA-256 over prompts and asked output lengths in order: equal digests mean equal traffic."""
    digest = hashlib.sha256()
    for sample in samples:
        prompt = sample.prompt.encode()
        # Lengths first: without them, two lists could be cut differently and still look the same.
        digest.update(f"{len(prompt)} {sample.output_tokens}\n".encode())
        digest.update(prompt)
    return digest.hexdigest()
