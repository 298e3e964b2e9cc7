"""Datasets that need no file: their prompts are random words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.datasets.files import Tokens


class RandomDataset(SpecModel):
    """No prompt shares its beginning with another, so the prefix cache stays cold; under cachePolicy Share every stage sends
    the same ones."""

    input_tokens: Tokens = Field(default=1024, description="Length of every prompt, in tokens.")
    output_tokens: Tokens = Field(default=128, description="Tokens asked for in every answer.")


class PrefixRepetitionDataset(SpecModel):
    """Random prompts that share prefixes: each stage has prefixes of its own, used in turns, and every prompt ends differently.
    The shared tokens are declared: hits on them are no contamination."""

    prefixes: Annotated[int, Field(ge=1, le=50_000)] = Field(default=10, description="Different prefixes in a stage.")
    prefix_tokens: Tokens = Field(
        default=256, description="Length of each prefix, in tokens; special tokens and chat template included."
    )
    suffix_tokens: Tokens = Field(default=256, description="Length of what follows it, in tokens.")
    output_tokens: Tokens = Field(default=128, description="Tokens asked for in every answer.")
