"""`huggingFace` data: a column of a dataset on the hub, read with the library `datasets` that vLLM's own benchmark reads it with.

Rows are streamed from the first on, up to a bound: a dataset of terabytes costs no more than its first rows.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from benchrun_client.contract import HuggingFaceData
from benchrun_client.datasets.lines import listed
from benchrun_client.datasets.rows import Row, RowFile, RowReader
from benchrun_client.failures import RunFailure, first_line

EMPTY = "EmptyText"


def read_hugging_face(data: HuggingFaceData) -> RowFile:
    """Every row's text; rows without one are dropped.

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`, naming row and column.
    """
    name = called(data)
    reader, digest = RowReader(), hashlib.sha256()
    try:
        for number, row in enumerate(islice(_stream(data), data.max_rows)):
            text = _text(row, data.column, where=f"{name}, row {number}")
            digest.update(f"{len(text.encode())}\n{text}".encode())
            if text.strip():
                reader.add(Row(text))
            else:
                reader.drop(EMPTY)
    except RunFailure:
        raise
    # Anything can come out of a foreign library here: hub errors, parsers' errors, a ValueError for a wrong split.
    except Exception as error:
        raise RunFailure(
            "DatasetNotFound",
            f"cannot read {name} from the hub: {first_line(error) or type(error).__name__}. Check its name, subset, split and "
            "revision, and that the client can reach the hub.",
        ) from error
    return reader.file(name=name, sha256=digest.hexdigest())


def _stream(data: HuggingFaceData) -> Iterable[Mapping[str, Any]]:
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise RunFailure(
            "DatasetNotFound",
            "the client's image has no Python package `datasets`: take a vLLM image that has vllm[bench], or download the data "
            "and use the dataset custom or texts",
        ) from error
    rows: Iterable[Mapping[str, Any]] = library.load_dataset(
        data.repository, name=data.subset, split=data.split, revision=data.revision, streaming=True
    )
    return rows


def _text(row: Mapping[str, Any], column: str, *, where: str) -> str:
    if column not in row:
        raise RunFailure("DatasetInvalid", f'{where}: there is no column "{column}"; it has {listed(row)}')
    value = row[column]
    if value is not None and not isinstance(value, str):
        raise RunFailure("DatasetInvalid", f'{where}: "{column}" must be a text, is {type(value).__name__}')
    return value or ""


def called(data: HuggingFaceData) -> str:
    """What people call it."""
    subset = f"/{data.subset}" if data.subset else ""
    return f"{data.repository}{subset} ({data.split}{f', {data.revision}' if data.revision else ''})"
