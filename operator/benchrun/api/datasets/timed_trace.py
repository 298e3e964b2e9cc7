"""Recorded traffic, replayed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.datasets.files import DatasetFile, FieldName


class TimedTraceDataset(SpecModel):
    """A JSON Lines file in which each line is a recorded request: instant, lengths of prompt and answer, and the blocks that its
    prompt was made of. The words are random; equal blocks within a stage get equal words, and that is declared. Each stage sends
    the first requests of the trace: at their instants under load.traceSpeeds, else as the load says. Left out and counted: what
    is longer than the model takes."""

    file: DatasetFile = Field(description="Where the JSON Lines file is.")
    unit: Literal["Seconds", "Milliseconds"] = Field(
        default="Milliseconds", description="Unit of the instants; they must not go back."
    )
    timestamp_field: FieldName = Field(default="timestamp", description="Field that holds the instant.")
    input_tokens_field: FieldName = Field(default="input_length", description="Field that holds the prompt's length.")
    output_tokens_field: FieldName = Field(default="output_length", description="Field that holds the answer's length.")
    blocks_field: FieldName = Field(
        default="hash_ids",
        description="Field that lists the blocks of the prompt; where a line has none, its prompt is unique.",
    )
    block_tokens: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=512, description="Tokens of a block: 512 in Mooncake's traces."
    )
