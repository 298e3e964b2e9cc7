"""`shareGPT` data: rows of a ShareGPT file.

A row is the first turn of a conversation with its answer, as in vLLM's reader, and what vLLM drops is dropped here: fewer than
two turns, very short, or longer than vLLM's limits. Other than in vLLM's reader a forced output length does not count against
its limit of 2048 tokens in all: with one, rows are dropped that the model can't take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun_client.contract import ShareGPTData
from benchrun_client.datasets.files import OpenedFile, opened
from benchrun_client.datasets.fitting import Fitting
from benchrun_client.datasets.json_value import json_value
from benchrun_client.datasets.lines import json_type
from benchrun_client.datasets.rows import Fit, Row, RowFile, RowReader
from benchrun_client.datasets.samples import Sample
from benchrun_client.failures import RunFailure

MIN_TOKENS = 4
MAX_TOTAL_TOKENS = 2048
"""vLLM's limits of a usable row (`is_valid_sequence`); that of the prompt can be set."""

NO_ANSWER = "FewerThanTwoTurns"
TOO_SHORT = "TooShort"
BEYOND_LIMITS = "BeyondTokenLimits"


def read_sharegpt(data: ShareGPTData) -> RowFile:
    """Every conversation a row.

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`, naming line or entry.
    """
    reader = RowReader()
    with opened(data.file) as file:
        for number, entry in enumerate(_entries(file)):
            row = _row(entry, where=f"{file.name}, entry {number}")
            if row is None:
                reader.drop(NO_ANSWER)
            else:
                reader.add(row)
        return reader.file(name=file.name, sha256=file.sha256)


def fit_sharegpt(data: ShareGPTData, fitting: Fitting) -> Fit:
    """How a row becomes a request. vLLM's limits are of the bare text, whatever a chat adds to it."""

    def fit(rows: Sequence[Row]) -> Sample | str:
        (row,) = rows
        prompt, answer = fitting.counter.count([row.text, row.answer], api="Completions")
        output = data.output_tokens or answer
        if prompt < MIN_TOKENS or (data.output_tokens is None and answer < MIN_TOKENS):
            return TOO_SHORT
        total = data.max_total_tokens or (MAX_TOTAL_TOKENS if data.output_tokens is None else None)
        if prompt > data.max_prompt_tokens or (total is not None and prompt + output > total):
            return BEYOND_LIMITS
        return fitting.request(row.text, output_tokens=output)

    return fit


def _entries(file: OpenedFile) -> list[object]:
    parsed = json_value(file.path.read_bytes(), name=file.name, should_be="A ShareGPT file is one JSON list.")
    if not isinstance(parsed, list):
        raise RunFailure("DatasetInvalid", f"{file.name} holds {json_type(parsed)}; a ShareGPT file is one JSON list")
    return parsed


def _row(entry: Any, *, where: str) -> Row | None:
    """The entry as a row; None for one without two turns, which every ShareGPT file has some of."""
    if not isinstance(entry, dict):
        raise RunFailure("DatasetInvalid", f'{where}: expected an object with "conversations", got {json_type(entry)}')
    turns = entry.get("conversations", [])
    if not isinstance(turns, list):
        raise RunFailure("DatasetInvalid", f'{where}: "conversations" must be a list')
    if len(turns) < 2:
        return None
    return Row(_value(turns[0], where=where), answer=_value(turns[1], where=where))


def _value(turn: object, *, where: str) -> str:
    value = turn.get("value") if isinstance(turn, dict) else None
    if not isinstance(value, str):
        raise RunFailure("DatasetInvalid", f'{where}: the first two turns must be objects with a text "value"')
    return value
