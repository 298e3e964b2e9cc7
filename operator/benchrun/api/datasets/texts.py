"""Texts in bulk: classify so many in one prompt, or each in its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.datasets.files import DatasetFile, FieldName
from benchrun.api.rules import Rule

MAX_TEXTS = 10_000


class TextsDataset(SpecModel):
    """Texts of one column, a line each, so many to a prompt, and an instruction behind them. Each text is used once a run: a
    stage takes requests x textsPerPrompt / duplicate of them. Left out and counted: empty texts, those that came before, and
    prompts longer than the model takes."""

    rules = (
        Rule(
            cel="self.outputTokensPerText * self.textsPerPrompt <= 1000000",
            holds=lambda texts: texts.output_tokens_per_text * texts.texts_per_prompt <= 1_000_000,
            message="outputTokensPerText x textsPerPrompt must be at most 1000000",
        ),
    )
    file: DatasetFile = Field(description="Where the CSV or JSON Lines file is.")
    format: Literal["CSV", "JSONL"] = Field(
        default="CSV", description="CSV: commas, double quotes, a header. JSONL: one JSON object a line. Both in UTF-8."
    )
    column: FieldName = Field(description="Column, or field, that holds the texts.")
    texts_per_prompt: Annotated[int, Field(ge=1, le=MAX_TEXTS)] = Field(default=1, description="Texts in one prompt.")
    instruction: Annotated[str, Field(max_length=4096)] = Field(
        default="", description="What is asked about the texts, behind the last of them."
    )
    output_tokens_per_text: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="Tokens asked for: so many times textsPerPrompt."
    )
    duplicate: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1,
        description="How often each prompt is sent, one right after the other. All but the first can come from the prefix cache; "
        "that is declared, so it is no contamination.",
    )
