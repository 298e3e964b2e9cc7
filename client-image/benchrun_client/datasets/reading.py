"""Everything that takes rows: read once, whoever asks for it, and shared by all that take the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from benchrun_client.contract import CustomData, Data, HuggingFaceData, ShareGPTData, TextsData
from benchrun_client.datasets.custom import read_custom
from benchrun_client.datasets.files import name_of
from benchrun_client.datasets.hugging_face import called, read_hugging_face
from benchrun_client.datasets.rows import RowFile, RowPool
from benchrun_client.datasets.samples import Portion
from benchrun_client.datasets.sharegpt import read_sharegpt
from benchrun_client.datasets.texts import read_texts

RowData = ShareGPTData | CustomData | TextsData | HuggingFaceData
"""What takes rows."""


def read_pools(portions: Sequence[Portion]) -> Mapping[RowData, RowPool]:
    """The pool of each dataset. Datasets with the same content share one, wherever each finds it.

    Raises:
        RunFailure: a dataset is missing or broken.
    """
    # Who takes each row's own output length wants more of the file than who forces it, and reads first.
    every = sorted(dict.fromkeys(p.data for p in portions if isinstance(p.data, RowData)), key=_is_forced)
    contents: dict[Hashable, Hashable] = {}
    files: dict[Hashable, RowFile] = {}
    for data in every:
        if _source(data) not in contents:
            file = _read(data)
            contents[_source(data)] = content = (_chosen(data), file.sha256)
            files.setdefault(content, file)
    needed: Counter[Hashable] = Counter()
    for portion in portions:
        if isinstance(portion.data, RowData):
            needed[contents[_source(portion.data)]] += different_prompts(portion) * rows_a_prompt(portion.data)
    pools = {content: RowPool(file, needed=needed[content]) for content, file in files.items()}
    return {data: pools[contents[_source(data)]] for data in every}


def source_name(data: RowData) -> str:
    """What people call the place it is read from."""
    return called(data) if isinstance(data, HuggingFaceData) else name_of(data.file)


def different_prompts(portion: Portion) -> int:
    """Of a portion."""
    return math.ceil(portion.requests / (portion.data.duplicate if isinstance(portion.data, TextsData) else 1))


def rows_a_prompt(data: Data) -> int:
    """How many rows make one."""
    return data.texts_per_prompt if isinstance(data, TextsData) else 1


def _is_forced(data: RowData) -> bool:
    return isinstance(data, CustomData) and data.output_tokens is not None


def _source(data: RowData) -> Hashable:
    """Where it is, and what is taken from there."""
    match data:
        case HuggingFaceData():
            return data.repository, data.revision, data.subset, data.split, data.max_rows, _chosen(data)
        case _:
            return data.file, _chosen(data)


def _chosen(data: RowData) -> Hashable:
    """What is taken of a content."""
    match data:
        case ShareGPTData():
            return (data.kind,)
        case CustomData():
            return data.kind, data.prompt_field, data.output_tokens_field
        case TextsData():
            return data.kind, data.format, data.column
        case HuggingFaceData():
            return data.kind, data.column


def _read(data: RowData) -> RowFile:
    match data:
        case ShareGPTData():
            return read_sharegpt(data)
        case CustomData():
            return read_custom(data)
        case TextsData():
            return read_texts(data)
        case HuggingFaceData():
            return read_hugging_face(data)
