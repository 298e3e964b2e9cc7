"""What a dataset gives: prompts with lengths, counted as the server will."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from benchrun_client.contract import SingleData, Stage, Warmup
from benchrun_client.tokenizer import Api

Slot = Stage | Warmup
"""A part of the run that sends requests: both kinds name their data, seed, API and number of requests."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Requests of one dataset: a slot, or a dataset's share of one."""

    workload: str
    part: int  # Position in a mix; 0 for the only one.
    data: SingleData
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
    """How many of the input tokens the dataset repeats on purpose, beyond what every prompt begins with."""
    at_seconds: float | None = None
    """When it is due, from the first of its stage on, as recorded; None: by the load."""


def prompts_digest(samples: Sequence[Sample]) -> str:
    """SHA-256 over prompts and requested output lengths in order: equal digests mean equal traffic."""
    digest = hashlib.sha256()
    for sample in samples:
        prompt = sample.prompt.encode()
        # Lengths first: without them, two lists could be cut differently and still look the same.
        digest.update(f"{len(prompt)} {sample.output_tokens}\n".encode())
        digest.update(prompt)
    return digest.hexdigest()


class Counting(Protocol):
    """Counts tokens the way the server will."""

    def count(self, texts: Sequence[str], *, api: Api) -> list[int]:
        """Tokens of each text as a separate prompt."""
        ...

    def shared_prefix(self, *, api: Api, after: str = "") -> int:
        """Tokens that every prompt begins with that begins with this text."""
        ...


def repeated_by(text: str, *, counter: Counting, api: Api) -> int:
    """Tokens that a common beginning adds to what every prompt begins with anyway."""
    return counter.shared_prefix(api=api, after=text) - counter.shared_prefix(api=api) if text else 0


def common_start(one: str, other: str) -> str:
    """What both begin with."""
    return one[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))]
