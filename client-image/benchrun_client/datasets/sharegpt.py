"""`shareGPT` data: rows of a ShareGPT file, each used once a run.

A row is the first turn of a conversation with its answer, as in vLLM's reader, and what vLLM drops is dropped here: fewer than
two turns, very short, or longer than vLLM's limits. Rows with a prompt that came before are dropped as well, for the second
would be served from the prefix cache.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrun_client.contract import ShareGPTData
from benchrun_client.datasets.samples import Sample, Slot
from benchrun_client.failures import RunFailure

MIN_TOKENS = 4
MAX_PROMPT_TOKENS = 1024
MAX_TOTAL_TOKENS = 2048
"""vLLM's limits of a usable row (`is_valid_sequence`)."""
MAX_FILE_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Row:
    """One usable-looking row: the first two turns."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class ShareGPTFile:
    """A file that has been read: its rows, and how many entries it had."""

    name: str
    entries: int
    rows: tuple[Row, ...]


def read_sharegpt(path: Path, *, name: str) -> ShareGPTFile:
    """Read a file; `name` is what people call it (its path, or the URL it came from).

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`, naming line or entry.
    """
    entries = _entries(path, name)
    rows: dict[str, Row] = {}
    for number, entry in enumerate(entries):
        row = _row(entry, where=f"{name}, entry {number}")
        if row is not None:
            rows.setdefault(row.prompt, row)
    return ShareGPTFile(name=name, entries=len(entries), rows=tuple(rows.values()))


def _entries(path: Path, name: str) -> list[object]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RunFailure("DatasetInvalid", f"{name} is larger than {MAX_FILE_BYTES // 1024**3} GiB")
        parsed = json.loads(path.read_bytes())
    except OSError as error:
        raise RunFailure(
            "DatasetNotFound",
            f"cannot read {name} in the client's container: {error.strerror}. Check the mount and the path.",
        ) from error
    except json.JSONDecodeError as error:
        raise RunFailure(
            "DatasetInvalid",
            f"{name}, line {error.lineno}, column {error.colno}: {error.msg}. A ShareGPT file is one JSON list.",
        ) from error
    except UnicodeDecodeError as error:
        raise RunFailure("DatasetInvalid", f"{name} is not text: {error.reason} at byte {error.start}") from error
    if not isinstance(parsed, list):
        raise RunFailure(
            "DatasetInvalid", f"{name} holds a JSON {type(parsed).__name__}; a ShareGPT file is one JSON list"
        )
    return parsed


def _row(entry: Any, *, where: str) -> Row | None:
    """The entry as a row; None for one without two turns, which every ShareGPT file has some of."""
    if not isinstance(entry, dict):
        raise RunFailure(
            "DatasetInvalid", f'{where}: expected an object with "conversations", got a {type(entry).__name__}'
        )
    turns = entry.get("conversations", [])
    if not isinstance(turns, list):
        raise RunFailure("DatasetInvalid", f'{where}: "conversations" must be a list')
    if len(turns) < 2:
        return None
    return Row(prompt=_value(turns[0], where=where), answer=_value(turns[1], where=where))


def _value(turn: object, *, where: str) -> str:
    value = turn.get("value") if isinstance(turn, dict) else None
    if not isinstance(value, str):
        raise RunFailure("DatasetInvalid", f'{where}: the first two turns must be objects with a text "value"')
    return value


class RowAssignment:
    """Gives every stage and warm-up rows of its own, drawn by its seed, in the order of asking."""

    def __init__(self, file: ShareGPTFile, *, count_tokens: Callable[[str], int]) -> None:
        self._file = file
        self._count_tokens = count_tokens
        self._pool = list(range(len(file.rows)))
        self._lengths: dict[int, tuple[int, int]] = {}

    def draw(self, slot: Slot, data: ShareGPTData, *, needed_by_run: int) -> tuple[Sample, ...]:
        """Rows for one slot.

        Raises:
            RunFailure: `DatasetTooSmall`, with the numbers.
        """
        rng = random.Random(slot.seed)
        samples: list[Sample] = []
        unusable: list[int] = []
        before = len(self._pool)
        while len(samples) < slot.requests and self._pool:
            row = self._take(rng)
            sample = self._sample(row, data)
            if sample is None:
                unusable.append(row)
            else:
                samples.append(sample)
        if len(samples) < slot.requests:
            taken_before = len(self._file.rows) - before
            raise RunFailure("DatasetTooSmall", self._too_small(taken_before + len(samples), needed_by_run))
        # What does not fit here may fit a stage that forces another output length.
        self._pool += unusable
        return tuple(samples)

    def _take(self, rng: random.Random) -> int:
        i = rng.randrange(len(self._pool))
        self._pool[i], self._pool[-1] = self._pool[-1], self._pool[i]
        return self._pool.pop()

    def _sample(self, row: int, data: ShareGPTData) -> Sample | None:
        text = self._file.rows[row]
        if row not in self._lengths:
            self._lengths[row] = (self._count_tokens(text.prompt), self._count_tokens(text.answer))
        prompt_tokens, answer_tokens = self._lengths[row]
        output_tokens = data.output_tokens or answer_tokens
        too_short = prompt_tokens < MIN_TOKENS or (data.output_tokens is None and answer_tokens < MIN_TOKENS)
        if too_short or prompt_tokens > MAX_PROMPT_TOKENS or prompt_tokens + output_tokens > MAX_TOTAL_TOKENS:
            return None
        return Sample(text.prompt, prompt_tokens, output_tokens)

    def _too_small(self, usable: int, needed: int) -> str:
        return (
            f"{self._file.name} has {self._file.entries} entries, {len(self._file.rows)} of them with two turns and a prompt "
            f"of its own, {usable} usable for this run (prompt of {MIN_TOKENS} to {MAX_PROMPT_TOKENS} tokens, at most "
            f"{MAX_TOTAL_TOKENS} with the output); the run needs {needed}, each used once. "
            "Ask for fewer requests or repeats, or give a larger file."
        )


def rows_needed(slots: Sequence[Slot], file: tuple[str | None, str | None]) -> int:
    """Rows that the whole run takes from one file, warm-ups included."""
    return sum(s.requests for s in slots if isinstance(s.data, ShareGPTData) and (s.data.path, s.data.url) == file)
