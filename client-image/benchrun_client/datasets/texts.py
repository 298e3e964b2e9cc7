"""`texts` data: the texts of one column, so many to a prompt, a line each, and an instruction behind them.

In front, texts keep prompts apart: no two of a run share their beginning, though all share the instruction.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchrun_client.contract import TextsData
from benchrun_client.datasets.files import (
    MAX_LINE_BYTES,
    OpenedFile,
    invalid,
    json_lines,
    lines,
    listed,
    opened,
    text_field,
)
from benchrun_client.datasets.rows import ROW_KINDS, Fitting, Row, RowFile, RowKind, RowReader, Sample

EMPTY = "EmptyText"


def read_texts(data: TextsData) -> RowFile:
    """Every text a row; empty ones are dropped.
    Raises RunFailure: `DatasetNotFound` or `DatasetInvalid`, naming line and column."""
    reader = RowReader()
    with opened(data.file) as file:
        texts = (text_field(entry, data.column, where=where) for where, entry in json_lines(file))
        for text in _csv_texts(file, data.column) if data.format == "CSV" else texts:
            one_line = " ".join(text.split())
            if one_line:
                reader.add(Row(one_line))
            else:
                reader.drop(EMPTY)
        return reader.file(name=file.name, sha256=file.sha256)


def fit_texts(data: TextsData, rows: Sequence[Row], fitting: Fitting) -> Sample | str:
    """Texts as a request: a text a line, then the instruction."""
    prompt = "\n".join([row.text for row in rows] + [data.instruction] * bool(data.instruction))
    return fitting.request(prompt, output_tokens=data.output_tokens_per_text * len(rows))


ROW_KINDS[TextsData] = RowKind(read_texts, fit_texts, content=("format", "column"))


def duplicated(samples: Sequence[Sample], *, times: int, requests: int, shared_prefix: int) -> tuple[Sample, ...]:
    """Each sample so many times, one right after the other; all copies but the first are repeated whole."""
    copies = [
        sample if copy == 0 else replace(sample, repeated_tokens=max(0, sample.input_tokens - shared_prefix))
        for sample in samples
        for copy in range(times)
    ]
    return tuple(copies[:requests])


def _csv_texts(file: OpenedFile, column: str) -> Iterator[str]:
    csv.field_size_limit(MAX_LINE_BYTES)
    table = csv.reader((text for _, text in lines(file)), strict=True)
    try:
        header = next(table, [])
        place = _place(header, column, file)
        for cells in table:
            if len(cells) == len(header):
                yield cells[place]
            elif cells:
                raise invalid(
                    f"{file.name}, line {table.line_num}: the row has {len(cells)} columns, the header has {len(header)}. "
                    "A text with commas or line breaks stands in double quotes."
                )
    except csv.Error as error:
        raise invalid(f"{file.name}, line {table.line_num}: {error}") from error


def _place(header: Sequence[str], column: str, file: OpenedFile) -> int:
    if column not in header:
        raise invalid(f'{file.name}, line 1: there is no column "{column}"; the header has {listed(header)}')
    if header.count(column) > 1:
        raise invalid(f'{file.name}, line 1: there is more than one column "{column}"')
    return header.index(column)
