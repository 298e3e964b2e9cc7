"""Data files to test with, and portions that read them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchrun_client.contract import Data, DataFile
from benchrun_client.datasets.row_pools import Portion, PromptRequest
from benchrun_client.datasets.run_datasets import RunDatasets
from unit.client.words import WordCounter


def written(folder: Path, name: str, content: str | bytes) -> DataFile:
    """Write a file with this content."""
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return DataFile(path=str(file))


def json_lines(
    folder: Path, rows: Iterable[Any], name: str = "rows.jsonl"
) -> DataFile:
    """Write a file with a JSON value on each line."""
    return written(folder, name, "".join(f"{json.dumps(row)}\n" for row in rows))


def portion(data: Data, **changes: Any) -> Portion:
    """Build a portion of four requests of a dataset."""
    return Portion(
        **{
            "workload": "chat",
            "part": 0,
            "data": data,
            "requests": 4,
            "seed": 1,
            "api": "Completions",
            **changes,
        }
    )


def drawn(
    *portions: Portion, context_tokens: int | None = None
) -> list[tuple[PromptRequest, ...]]:
    """Return what a run that consists of these portions sends."""
    supply = RunDatasets(
        portions, counter=WordCounter(special=1), context_tokens=context_tokens
    )
    return [supply.draw(each) for each in portions]
