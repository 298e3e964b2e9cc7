"""Datasets of prompts that somebody wrote: each row is used once a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.datasets.files import DatasetFile, FieldName, Tokens


class ShareGPTDataset(SpecModel):
    """The first turn of a conversation is the prompt. Each row is used once a run (under cachePolicy Share all stages of a
    workload send the same rows). Left out and counted: prompts and answers below 4 tokens, what is longer than the limits here
    or than the model takes, and prompts that came before."""

    file: DatasetFile = Field(description="Where the JSON file is.")
    output_tokens: Tokens | None = Field(
        default=None, description="Forces every answer to this length; the length of the row's own answer if left out."
    )
    max_prompt_tokens: Tokens = Field(
        default=1024, description="Longest prompt that is used; vLLM's own limit is 1024."
    )
    max_total_tokens: Tokens | None = Field(
        default=None,
        description="Longest prompt and answer together. Left out: 2048, as in vLLM; with outputTokens what the model takes.",
    )


class CustomDataset(SpecModel):
    """A JSON Lines file, one object a line, as `vllm bench serve --dataset-name custom` takes it. Each line is used once a run.
    Left out and counted: prompts that came before, and what is longer than the model takes. What all prompts begin with is
    measured and declared."""

    file: DatasetFile = Field(description="Where the JSON Lines file is.")
    prompt_field: FieldName = Field(default="prompt", description="Field that holds the prompt.")
    output_tokens_field: FieldName = Field(
        default="output_tokens", description="Field that holds the length to ask for; not read with outputTokens."
    )
    output_tokens: Tokens | None = Field(
        default=None, description="Tokens asked for in every answer; each line's own if left out."
    )


class HuggingFaceDataset(SpecModel):
    """A column of texts from a dataset on the Hugging Face hub. Each row is used once a run. The client's image needs the Python
    package `datasets`, which comes with vllm[bench]; a token for the hub is that of model.source.hub."""

    repository: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?$")] = (
        Field(description="Name of the dataset, for example openai/gsm8k.")
    )
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Commit, tag or branch; name a commit to get the same rows tomorrow."
    )
    subset: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Configuration of the dataset, where it has several."
    )
    split: Annotated[str, Field(min_length=1, max_length=64)] = Field(default="train", description="Which split.")
    column: FieldName = Field(description="Column that holds the prompt.")
    output_tokens: Tokens = Field(description="Tokens asked for in every answer.")
    max_rows: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=10_000, description="Rows read, from the first on: prompts are drawn from among them."
    )
