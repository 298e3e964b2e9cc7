"""`custom` data: prompts of one's own, a JSON object a line, as vLLM's benchmark takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun_client.contract import CustomData
from benchrun_client.datasets.files import opened
from benchrun_client.datasets.fitting import Fitting
from benchrun_client.datasets.lines import json_lines, json_type, listed, text_field
from benchrun_client.datasets.rows import Fit, Row, RowFile, RowReader
from benchrun_client.datasets.samples import Sample
from benchrun_client.failures import RunFailure


def read_custom(data: CustomData) -> RowFile:
    """Every line a row.

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`, naming line and field.
    """
    reader = RowReader()
    with opened(data.file) as file:
        for where, entry in json_lines(file):
            prompt = text_field(entry, data.prompt_field, where=where)
            if not prompt.strip():
                raise RunFailure("DatasetInvalid", f'{where}: "{data.prompt_field}" is empty')
            tokens = None if data.output_tokens is not None else _output_tokens(entry, data, where=where)
            reader.add(Row(prompt, output_tokens=tokens))
        return reader.file(name=file.name, sha256=file.sha256)


def _output_tokens(entry: dict[str, Any], data: CustomData, *, where: str) -> int:
    field = data.output_tokens_field
    if field not in entry:
        raise RunFailure(
            "DatasetInvalid",
            f'{where}: there is no field "{field}"; it has {listed(entry)}. Add it to every line, or set outputTokens.',
        )
    value = entry[field]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        shown = value if isinstance(value, int | float) and not isinstance(value, bool) else json_type(value)
        raise RunFailure("DatasetInvalid", f'{where}: "{field}" must be a whole number of 1 or more, is {shown}')
    return value


def fit_custom(output_tokens: int | None, fitting: Fitting) -> Fit:
    """How a row becomes a request; `output_tokens` None takes the row's own."""

    def fit(rows: Sequence[Row]) -> Sample | str:
        (row,) = rows
        return fitting.request(row.text, output_tokens=output_tokens or row.output_tokens or 1)

    return fit
