"""Prompts written by people: `custom`, `shareGPT`, `huggingFace` and `texts` data.

Of a ShareGPT file the same rows are dropped as by vLLM's reader, except that a forced output length
does not count against the limit of 2048 tokens. In a prompt of `texts` the texts stand before the
instruction, so that no two prompts of a run share their beginning.
"""

import codecs
import csv
import hashlib
import importlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, islice, repeat
from typing import Any

from benchrun_client.contract import COPY, Api
from benchrun_client.contract.datasets import (
    CustomData,
    HuggingFaceData,
    ShareGPTData,
    TextsData,
)
from benchrun_client.datasets import files
from benchrun_client.datasets.row_pools import (
    ROW_KINDS,
    DatasetRow,
    Fitting,
    PromptRequest,
    RowFile,
    RowKind,
    repeated_by,
    row_file,
)
from benchrun_client.failures import RunFailure, error_text, shorten
from benchrun_client.tokenizer import TokenCounter


def read_custom(data: CustomData) -> RowFile[DatasetRow]:
    """Read every line as a row."""
    with files.opened(data.file) as file:
        rows = (
            _custom_row(entry, data, where=where)
            for where, entry in files.json_lines(file)
        )
        return row_file(rows, name=file.name, sha256=file.sha256)


def _custom_row(
    entry: dict[str, Any], data: CustomData, *, where: str
) -> DatasetRow:
    prompt = files.text_field(entry, data.prompt_field, where=where)
    if not prompt.strip():
        raise files.invalid(f'{where}: "{data.prompt_field}" is empty')
    if data.output_tokens is not None:
        return DatasetRow(prompt)
    field = data.output_tokens_field
    value = files.field_of(
        entry,
        field,
        where=where,
        advice=". Add it to every line, or set outputTokens.",
    )
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 1 <= value <= files.MAX_TOKENS:
        shown = (
            shorten(str(value), 40)
            if isinstance(value, int | float) and not isinstance(value, bool)
            else files.json_type(value)
        )
        raise files.invalid(
            f'{where}: "{field}" must be a whole number from 1 to {files.MAX_TOKENS}, '
            f"but is {shown}"
        )
    return DatasetRow(prompt, output_tokens=value)


def fit_custom(
    data: CustomData | HuggingFaceData, rows: Sequence[DatasetRow], fitting: Fitting
) -> PromptRequest | str:
    """Build the request of a row, with the dataset's output length if it has one, else the row's.

    Or return the reason why the row is left out.
    """
    (row,) = rows
    return fitting.request(
        row.text, output_tokens=data.output_tokens or row.output_tokens or 1
    )


ROW_KINDS[CustomData] = RowKind(
    read_custom,
    fit_custom,
    content=("prompt_field", "output_tokens_field"),
    # The others need the output length of every row.
    reads_less=lambda data: data.output_tokens is not None,
)

MIN_TOKENS = 4
MAX_TOTAL_TOKENS = 2048
"""This and `MIN_TOKENS` are vLLM's limits for a usable row (`is_valid_sequence`). A dataset can set
another limit for the prompt."""

NO_ANSWER = "FewerThanTwoTurns"
TOO_SHORT = "TooShort"
EMPTY = "EmptyText"
BEYOND_LIMITS = "BeyondTokenLimits"


def read_sharegpt(data: ShareGPTData) -> RowFile[DatasetRow]:
    """Read every conversation as a row."""
    with files.opened(data.file) as file:
        entries = _entries(file)
        rows = (_sharegpt_row(entry, where=where) for where, entry in entries)
        return row_file(rows, name=file.name, sha256=file.sha256)


def _entries(file: files.OpenedFile) -> Iterator[tuple[str, Any]]:
    """Yield each conversation of a JSON list or of JSON Lines: where it is, and its content."""
    with file.path.open("rb") as content:
        start = content.read(_START_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"{"):
        yield from files.json_lines(file)
        return
    should_be = "A ShareGPT file is one JSON list, or one JSON object a line."
    entries = files.json_value(
        file.path.read_bytes(), name=file.name, should_be=should_be
    )
    if not isinstance(entries, list):
        raise files.invalid(
            f"{file.name} holds {files.json_type(entries)}. {should_be}"
        )
    for number, entry in enumerate(entries):
        yield f"{file.name}, entry {number}", entry


_START_BYTES = 4096


def fit_sharegpt(
    data: ShareGPTData, rows: Sequence[DatasetRow], fitting: Fitting
) -> PromptRequest | str:
    """Build the request of a row, or return the reason why the row is left out.

    vLLM's limits apply to the text without chat template.
    """
    (row,) = rows
    prompt, answer = fitting.counter.count(
        [row.text, row.answer], api="Completions"
    )
    output = data.output_tokens or answer
    if prompt < MIN_TOKENS or (data.output_tokens is None and answer < MIN_TOKENS):
        return TOO_SHORT
    total = data.max_total_tokens or (
        MAX_TOTAL_TOKENS if data.output_tokens is None else None
    )
    if prompt > data.max_prompt_tokens or (
        total is not None and prompt + output > total
    ):
        return BEYOND_LIMITS
    return fitting.request(row.text, output_tokens=output)


def vllms_order(data: ShareGPTData, rows: int) -> list[int] | None:
    """Return the rows' positions in the order of vLLM's sampler; None if no seed of it is given.

    The order is that of `ShareGPTDataset.load_data`, the same in vLLM 0.8.4 and 0.32.
    """
    if data.seed is None:
        return None
    places = list(range(rows))
    random.Random(data.seed).shuffle(places)
    return places


ROW_KINDS[ShareGPTData] = RowKind(
    read_sharegpt, fit_sharegpt, content=("sends_again",), order=vllms_order
)


def _sharegpt_row(entry: Any, *, where: str) -> DatasetRow | str:
    if not isinstance(entry, dict):
        raise files.invalid(
            f'{where}: expected an object with "{_VLLM_KEY}", got {files.json_type(entry)}'
        )
    key, turns = files.turns_of(entry, where=where)
    if key != _VLLM_KEY:
        turns = list(dropwhile(_is_instruction, turns))
    at = f'{where}, "{key}"'
    if len(turns) < 2:
        # A file of another form is not taken for one of short conversations.
        for turn in turns:
            files.text_key_of(turn, where=at)
        return NO_ANSWER
    return DatasetRow(
        files.words_of(turns[0], where=at),
        answer=files.words_of(turns[1], where=at),
    )


# vLLM's reader takes its first two turns, by any speaker.
_VLLM_KEY = "conversations"
_INSTRUCTIONS = ("system", "developer")


def _is_instruction(turn: object) -> bool:
    return isinstance(turn, dict) and files.role_of(turn) in _INSTRUCTIONS


def read_hugging_face(data: HuggingFaceData) -> RowFile[DatasetRow]:
    """Read every row's text; rows without a text are dropped."""
    name = called(data)
    digest = hashlib.sha256()

    def rows() -> Iterator[DatasetRow | str]:
        for number, row in enumerate(islice(_stream(data), data.max_rows)):
            where = f"{name}, row {number}"
            value = files.field_of(row, data.column, where=where, kind="column")
            if value is not None and not isinstance(value, str):
                raise files.invalid(
                    f'{where}: "{data.column}" must be a text, but is {type(value).__name__}'
                )
            text = value or ""
            if text != text.encode(errors="replace").decode():
                raise files.invalid(
                    f'{where}: "{data.column}" has half of a surrogate pair'
                )
            digest.update(f"{len(text.encode())}\n{text}".encode())
            yield DatasetRow(text) if text.strip() else EMPTY

    try:
        read = row_file(rows(), name=name, sha256="")
    except RunFailure:
        raise
    # Anything can come out of a foreign library here: hub errors, parsers' errors, a ValueError for
    # a wrong split.
    except Exception as error:
        raise files.not_found(
            f"cannot read {name} from the hub: {error_text(error)}. Check the name, subset, "
            "split and revision of the dataset, and that the client can reach the hub."
        ) from error
    return replace(read, sha256=digest.hexdigest())


def _stream(data: HuggingFaceData) -> Iterable[Mapping[str, Any]]:
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise files.not_found(
            "the client's image has no Python package `datasets`: take a vLLM image that has "
            "vllm[bench], or download the data "
            "and use the dataset custom or texts"
        ) from error
    rows: Iterable[Mapping[str, Any]] = library.load_dataset(
        data.repository,
        name=data.subset,
        split=data.split,
        revision=data.revision,
        streaming=True,
    )
    return rows


def called(data: HuggingFaceData) -> str:
    subset = f"/{data.subset}" if data.subset else ""
    return (
        f"{data.repository}{subset} "
        f"({data.split}{f', {data.revision}' if data.revision else ''})"
    )


ROW_KINDS[HuggingFaceData] = RowKind(
    read_hugging_face,
    fit_custom,
    content=("column",),
    source=("repository", "revision", "subset", "split", "max_rows"),
    name=called,
)


def read_texts(data: TextsData) -> RowFile[DatasetRow]:
    """Read every text as a row; empty texts are dropped."""
    with files.opened(data.file) as file:
        fields = (
            files.text_field(entry, data.column, where=where)
            for where, entry in files.json_lines(file)
        )
        texts = _csv_texts(file, data.column) if data.format == "CSV" else fields
        # Spaces stay as they are: they are tokens, too.
        lines = (
            " ".join(map(str.strip, text.splitlines())).strip() for text in texts
        )
        return row_file(
            (DatasetRow(line) if line else EMPTY for line in lines),
            name=file.name,
            sha256=file.sha256,
        )


def fit_texts(
    data: TextsData, rows: Sequence[DatasetRow], fitting: Fitting
) -> PromptRequest | str:
    prompt = "\n".join(
        [row.text for row in rows] + [data.instruction] * bool(data.instruction)
    )
    return fitting.request(
        prompt, output_tokens=data.output_tokens_per_text * len(rows)
    )


def files_order(data: TextsData, rows: int) -> range | None:
    """Return the positions of the texts in the order of the file; None if they are drawn."""
    return range(rows) if data.sends_again else None


def numbered_copies(
    samples: Iterable[PromptRequest],
    data: TextsData,
    counter: TokenCounter,
    api: Api,
) -> Iterator[PromptRequest]:
    """Yield `duplicate` copies of each request, with the copy's number where one is asked for."""
    for sample in samples:
        if COPY not in data.instruction:
            yield from repeat(sample, data.duplicate)
            continue
        texts, _, _ = sample.prompt.rpartition(data.instruction)
        before = texts + data.instruction.partition(COPY)[0]
        again = (
            repeated_by(before, counter=counter, api=api)
            if data.duplicate > 1
            else 0
        )
        for copy in range(data.duplicate):
            prompt = texts + data.instruction.replace(COPY, str(copy))
            yield PromptRequest(
                prompt,
                counter.count([prompt], api=api)[0],
                sample.output_tokens,
                repeated_tokens=again if copy else sample.repeated_tokens,
            )


ROW_KINDS[TextsData] = RowKind(
    read_texts,
    fit_texts,
    content=("format", "column", "sends_again"),
    order=files_order,
    copied=numbered_copies,
)


def _csv_texts(file: files.OpenedFile, column: str) -> Iterator[str]:
    csv.field_size_limit(files.MAX_LINE_BYTES)
    table = csv.reader((text for _, text in files.lines(file)), strict=True)
    try:
        header = next(table, [])
        where = f"{file.name}, line 1"
        if column not in header:
            raise files.invalid(
                f'{where}: there is no column "{column}"; the header has {files.listed(header)}'
            )
        if header.count(column) > 1:
            raise files.invalid(
                f'{where}: there is more than one column "{column}"'
            )
        place = header.index(column)
        for cells in table:
            if len(cells) == len(header):
                yield cells[place]
            elif cells:
                raise files.invalid(
                    f"{file.name}, line {table.line_num}: the row has {len(cells)} columns, the "
                    f"header has {len(header)}. "
                    "Put each text that has commas or line breaks in double quotes."
                )
    except csv.Error as error:
        raise files.invalid(
            f"{file.name}, line {table.line_num}: {error}"
        ) from error
