"""All datasets there are, and several of them in one stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.datasets.agent import AgentDataset
from benchrun.api.datasets.files import DatasetFile
from benchrun.api.datasets.generated import PrefixRepetitionDataset, RandomDataset
from benchrun.api.datasets.rows import CustomDataset, HuggingFaceDataset, ShareGPTDataset
from benchrun.api.datasets.texts import TextsDataset
from benchrun.api.datasets.timed_trace import TimedTraceDataset
from benchrun.api.rules import ATOMIC, exactly_one

MAX_MIX_PARTS = 8
_MIXABLE = ("random", "prefix_repetition", "agent", "share_gpt", "custom", "texts", "hugging_face")


class MixableDataset(SpecModel):
    """Exactly one dataset."""

    rules = (exactly_one(*_MIXABLE),)
    random: RandomDataset | None = Field(default=None, description="Random tokens of fixed length.")
    prefix_repetition: PrefixRepetitionDataset | None = Field(
        default=None, description="Random tokens, many prompts beginning alike."
    )
    agent: AgentDataset | None = Field(default=None, description="One long conversation with a date in front.")
    share_gpt: ShareGPTDataset | None = Field(default=None, description="Conversations from a ShareGPT file.")
    custom: CustomDataset | None = Field(default=None, description="Prompts from a JSON Lines file.")
    texts: TextsDataset | None = Field(default=None, description="Texts of a CSV or JSON Lines column, packed.")
    hugging_face: HuggingFaceDataset | None = Field(default=None, description="Prompts from the Hugging Face hub.")


class MixPart(MixableDataset):
    """Exactly one dataset, and its share of the requests."""

    weight: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1, description="Share of the requests, against the weights of the others."
    )


MixParts = Annotated[list[MixPart], Field(min_length=2, max_length=MAX_MIX_PARTS, json_schema_extra=ATOMIC)]


class Dataset(MixableDataset):
    """Exactly one dataset."""

    rules = (exactly_one(*_MIXABLE, "timed_trace", "mix"),)
    timed_trace: TimedTraceDataset | None = Field(default=None, description="Recorded requests, replayed.")
    mix: MixParts | None = Field(
        default=None, description="Several datasets in one stream, in an order drawn by the seed."
    )


def parts_of(dataset: Dataset) -> tuple[MixableDataset, ...]:
    """The datasets of a mix; of every other one itself."""
    return tuple(dataset.mix) if dataset.mix is not None else (dataset,)


def file_of(dataset: MixableDataset) -> DatasetFile | None:
    """The file it reads; None: it reads none."""
    return next(_files(dataset), None)


def _files(dataset: MixableDataset) -> Iterator[DatasetFile]:
    trace = dataset.timed_trace if isinstance(dataset, Dataset) else None
    for reading in (dataset.share_gpt, dataset.custom, dataset.texts, trace):
        if reading is not None:
            yield reading.file
    if dataset.agent is not None and dataset.agent.conversation is not None:
        yield dataset.agent.conversation
