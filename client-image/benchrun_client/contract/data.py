"""The contract's words for what requests say: one message a kind of dataset.

A part of `contract`, which is what both sides import.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST = 1e15
"""Largest number that anybody may say, above and below zero: sums and products of it still are numbers."""

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
FieldName = Annotated[str, Field(min_length=1, max_length=128)]


class Message(BaseModel):
    """Base of everything that crosses the border: closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


# ---- where files are ------------------------------------------------------------------------------------------------


class S3Object(Message):
    """An object in a store that speaks S3."""

    bucket: LongText
    key: LongText
    endpoint: LongText | None = None
    """URL of the store; None is AWS."""
    region: LongText
    credentials: LongText | None = None
    """What the names of the environment variables with the credentials begin with; None asks without any."""


class DataFile(Message):
    """A file: exactly one of its members says where it is."""

    path: LongText | None = None
    """In the client's container: in its image, or on a volume."""
    url: LongText | None = None
    s3: S3Object | None = None

    @model_validator(mode="after")
    def _is_somewhere(self) -> DataFile:
        if sum(place is not None for place in (self.path, self.url, self.s3)) != 1:
            raise ValueError("a file has exactly one of path, url and s3")
        return self


# ---- made by the client ---------------------------------------------------------------------------------------------


class RandomData(Message):
    """Prompts of random tokens; none shares its first KV block with another of the run."""

    kind: Literal["random"] = "random"
    input_tokens: Tokens
    output_tokens: Tokens


class PrefixRepetitionData(Message):
    """Random prompts of which many begin alike: each stage has so many beginnings, used in turns."""

    kind: Literal["prefixRepetition"] = "prefixRepetition"
    prefixes: Count = Field(ge=1)
    prefix_tokens: Tokens
    suffix_tokens: Tokens
    output_tokens: Tokens


class AgentData(Message):
    """One long conversation, with date and time in front of its first user turn."""

    kind: Literal["agent"] = "agent"
    file: DataFile | None = None
    """None takes the conversation that comes with the client."""
    variants: Count | None = Field(default=None, ge=1)
    """Different dates in a stage; None: each request has its own. 1 is a static prefix."""
    output_tokens: Tokens | None = None
    """None asks for as many as the conversation's last answer has."""


# ---- read from files ------------------------------------------------------------------------------------------------


class ShareGPTData(Message):
    """Rows of a ShareGPT file; each row is used once a run."""

    kind: Literal["shareGPT"] = "shareGPT"
    file: DataFile
    output_tokens: Tokens | None = None
    """Forced output length; None takes each row's own answer length."""
    max_prompt_tokens: Tokens = 1024
    max_total_tokens: Tokens | None = None
    """Longest prompt and output together; None: 2048 with a row's own answer, the model's length with a forced one."""


class CustomData(Message):
    """Prompts of a JSON Lines file; each line is used once a run."""

    kind: Literal["custom"] = "custom"
    file: DataFile
    prompt_field: FieldName = "prompt"
    output_tokens_field: FieldName = "output_tokens"
    output_tokens: Tokens | None = None
    """For every request; None takes each line's own."""


class TextsData(Message):
    """Texts of one column, so many to a prompt, and an instruction behind them; each text is used once a run."""

    kind: Literal["texts"] = "texts"
    file: DataFile
    format: Literal["CSV", "JSONL"]
    column: FieldName
    texts_per_prompt: Count = Field(ge=1)
    instruction: LongText = ""
    output_tokens_per_text: Tokens
    duplicate: Count = Field(ge=1)
    """How often each prompt is sent, one right after the other."""


class HuggingFaceData(Message):
    """Prompts from a column of a dataset on the hub; each row is used once a run."""

    kind: Literal["huggingFace"] = "huggingFace"
    repository: LongText
    """Name on the hub, or a directory in the client's container."""
    revision: LongText | None = None
    subset: LongText | None = None
    split: LongText = "train"
    column: FieldName
    output_tokens: Tokens
    max_rows: Count = Field(ge=1)
    """Rows read, from the first on."""


class TimedTraceData(Message):
    """A recorded trace: instants, lengths, and what prompts had in common. The texts are random."""

    kind: Literal["timedTrace"] = "timedTrace"
    file: DataFile
    unit: Literal["Seconds", "Milliseconds"]
    timestamp_field: FieldName = "timestamp"
    input_tokens_field: FieldName = "input_length"
    output_tokens_field: FieldName = "output_length"
    blocks_field: FieldName = "hash_ids"
    block_tokens: Tokens
    """Tokens that one entry of the blocks stands for."""


# ---- together -------------------------------------------------------------------------------------------------------

MixableData = Annotated[
    RandomData | PrefixRepetitionData | AgentData | ShareGPTData | CustomData | TextsData | HuggingFaceData,
    Field(discriminator="kind"),
]


class MixPart(Message):
    """One of the datasets of a mix, and its share of the requests."""

    weight: Count = Field(ge=1)
    data: MixableData


class MixData(Message):
    """Several datasets in one stream of requests."""

    kind: Literal["mix"] = "mix"
    parts: tuple[MixPart, ...] = Field(min_length=2, max_length=64)


Data = Annotated[
    RandomData
    | PrefixRepetitionData
    | AgentData
    | ShareGPTData
    | CustomData
    | TextsData
    | HuggingFaceData
    | TimedTraceData
    | MixData,
    Field(discriminator="kind"),
]


# ---- what came of it ------------------------------------------------------------------------------------------------


class DatasetFacts(Message):
    """What was read for a workload, and what was left out: the same in each of its records."""

    part: int = Field(default=0, ge=0, le=64)
    """Position in a mix; 0 for the only one."""
    source: ShortText
    sha256: Hex
    """Of the file as it was read, or of the rows taken from the hub."""
    rows_read: Count
    rows_used: Count
    """Taken by this workload over the run, its warm-up included."""
    rows_dropped: dict[Annotated[str, Field(max_length=30)], Count] = Field(default_factory=dict, max_length=8)
    """Rows that can't be used, by reason. Of the file: whatever workload it was that looked at them."""
