"""How agents talk to a model: a long history that hardly changes, and a clock that does."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.datasets.files import DatasetFile, Tokens
from benchrun.api.rules import exactly_one


class StaticPrefix(SpecModel):
    """All requests of a stage carry the same date: they are copies of one another."""


class DynamicPrefix(SpecModel):
    """Each request goes one more day back: they have only in common what stands before the date."""

    variants: Annotated[int, Field(ge=2, le=50_000)] | None = Field(
        default=None,
        description="Different dates in a stage; then they come again. Left out: every request has its own.",
    )


class AgentDataset(SpecModel):
    """One conversation, sent as one prompt up to its last answer, with time and date in front of the first user turn. Both come
    from the seed, never from the clock; the time of day is each stage's own, so stages share nothing but what stands before it.
    What requests have in common is declared. Exactly one of `staticPrefix` and `dynamicPrefix`."""

    rules = (exactly_one("static_prefix", "dynamic_prefix"),)
    conversation: DatasetFile | None = Field(
        default=None,
        description="A JSON file with one conversation, as ShareGPT (conversations) or OpenAI (messages) writes it. Left out: "
        "one of about 3000 tokens that comes with the client.",
    )
    static_prefix: StaticPrefix | None = Field(default=None, description="The same date in all requests of a stage.")
    dynamic_prefix: DynamicPrefix | None = Field(default=None, description="Another date in each request.")
    output_tokens: Tokens | None = Field(
        default=None, description="Tokens asked for; the length of the conversation's last answer if left out."
    )
