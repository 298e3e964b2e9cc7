"""What all parts of the contract are made of: the base of its messages, and bounded numbers and texts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST = 1e15
"""Largest number that a message may hold, above and below zero: sums and products of it still are numbers."""

Micros = Annotated[int, Field(ge=0, le=10**16)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Tokens = Annotated[int, Field(ge=1, le=10**9)]
Finite = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Number = Finite | Annotated[int, Field(ge=-(10**15), le=10**15)]
ShortText = Annotated[str, Field(max_length=300)]
LongText = Annotated[str, Field(max_length=4096)]
"""A path, a URL, a name."""
DecimalText = Annotated[str, Field(max_length=24)]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Message(BaseModel):
    """Base of everything that operator and client send each other: closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
