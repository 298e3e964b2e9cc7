"""`timedTrace` data: recorded traffic without its words.

Each line is a request: when it arrived, the lengths of prompt and answer, and the blocks of the
prompt. Equal blocks become equal words. Unlike in vLLM's reader, the words are drawn by the stage's
seed, and prompts are filled up to their length.
"""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, cycle, islice
from typing import Any

from benchrun_client.contract import DatasetFacts, WarmupPlan
from benchrun_client.contract.datasets import TimedTraceData
from benchrun_client.datasets.files import (
    MAX_TOKENS,
    field_of,
    invalid,
    json_lines,
    json_type,
    opened,
)
from benchrun_client.datasets.random_words import (
    WRITTEN_KINDS,
    WordWriter,
    WrittenKind,
)
from benchrun_client.datasets.row_pools import (
    TOO_LONG,
    Portion,
    PromptRequest,
    RowFile,
    Slot,
)
from benchrun_client.failures import RunFailure, shorten

Block = int | str


@dataclass(frozen=True, slots=True)
class Entry:
    at_seconds: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[Block, ...]


class RecordedTrace(RowFile[Entry]):
    """Recorded requests, in order of time."""

    def first(self, requests: int) -> tuple[Entry, ...]:
        """Return the first `requests` entries.

        Raises RunFailure `DatasetTooSmall`, with both numbers, if there are fewer.
        """
        if len(self.rows) < requests:
            left_out = ", ".join(
                f"{count} {reason}" for reason, count in self.dropped.items()
            )
            raise RunFailure(
                "DatasetTooSmall",
                f"{self.name} has {len(self.rows)} usable "
                f"requests{f' (dropped: {left_out})' if left_out else ''}; "
                f"a stage sends {requests}. Ask for fewer, or give a longer trace.",
            )
        return self.rows[:requests]

    def outlines(self, slot: Slot) -> Sequence[Entry]:
        """Return the entries that a stage or warm-up sends.

        Raises RunFailure `DatasetTooSmall` for a stage that sends more than there are.
        """
        if isinstance(slot, WarmupPlan) and self.rows:
            # A warm-up keeps no instants: a short trace may begin again.
            return tuple(islice(cycle(self.rows), slot.requests))
        return self.first(slot.requests)

    def facts_of(self, portions: Sequence[Portion]) -> DatasetFacts:
        """Describe what was read for portions of one workload, which all use the first entries."""
        most = max(portion.requests for portion in portions)
        return self.facts(portions[0].part, used=min(most, len(self.rows)))


def read_trace(
    data: TimedTraceData, *, context_tokens: int | None
) -> RecordedTrace:
    """Read every line as a request; requests that the model cannot take are dropped.

    Raises RunFailure that names line and field.
    """
    entries: list[Entry] = []
    too_long = 0
    last = 0.0
    with opened(data.file) as file:
        for where, line in json_lines(file):
            entry = _entry(line, data, where=where)
            if entry.at_seconds < last:
                raise invalid(
                    f'{where}: "{data.timestamp_field}" goes back in time, to '
                    f"{line[data.timestamp_field]}. Sort the trace by it."
                )
            last = entry.at_seconds
            if (
                context_tokens is not None
                and entry.input_tokens + entry.output_tokens > context_tokens
            ):
                too_long += 1
            else:
                entries.append(entry)
        return RecordedTrace(
            file.name,
            file.sha256,
            tuple(entries),
            {TOO_LONG: too_long} if too_long else {},
        )


def write_trace(
    writer: WordWriter,
    portion: Portion,
    entries: Sequence[Entry],
    *,
    block_tokens: int,
) -> tuple[PromptRequest, ...]:
    """Build the requests of a portion from its seed and the recorded entries.

    Raises RunFailure `InvalidPlan`.
    """
    rng = random.Random(portion.seed)
    rest = random.Random(f"{portion.seed}/rest")
    # The words of each block, drawn when it first comes up.
    words_of = cache(
        lambda block: writer.distinct(
            random.Random(f"{portion.seed}/{block!r}"), block_tokens
        )
    )

    def words_that_fit(entry: Entry) -> int:
        return writer.words_that_fit(
            entry.input_tokens, api=portion.api, whose="a recorded input length of"
        )

    def draft(entry: Entry) -> tuple[list[str], int]:
        """Return the words of an entry, and its length in tokens.

        The words of its blocks come first, then new words up to that length.
        """
        room = words_that_fit(entry)
        words = list(islice(chain.from_iterable(map(words_of, entry.blocks)), room))
        return words + writer.distinct(rest, room - len(words)), entry.input_tokens

    samples: list[PromptRequest] = []
    tree: dict[tuple[int, Block], int] = {}
    for prompt, entry in zip(
        writer.exact(rng, map(draft, entries), api=portion.api),
        entries,
        strict=True,
    ):
        repeated = min(
            _known(tree, entry.blocks) * block_tokens, words_that_fit(entry)
        )
        at = entry.at_seconds - entries[0].at_seconds
        samples.append(
            PromptRequest(
                prompt, entry.input_tokens, entry.output_tokens, repeated, at
            )
        )
    return tuple(samples)


WRITTEN_KINDS[TimedTraceData] = WrittenKind(
    write=lambda writer, portion, data, entries: write_trace(
        writer, portion, entries, block_tokens=data.block_tokens
    ),
    record=lambda data, context_tokens, _counter, _wanted, _apis: read_trace(
        data, context_tokens=context_tokens
    ),
)


def _known(tree: dict[tuple[int, Block], int], blocks: Sequence[Block]) -> int:
    """Return how many of the first blocks some earlier request of the stage began with.

    Adds the blocks to `tree`.
    """
    node = 0
    known = 0
    for block in blocks:
        new = len(tree) + 1
        node = tree.setdefault((node, block), new)
        known += node != new
    return known


def _entry(line: dict[str, Any], data: TimedTraceData, *, where: str) -> Entry:
    at = _number(line, data.timestamp_field, where=where)
    blocks = line.get(data.blocks_field, [])
    if not isinstance(blocks, list) or not all(
        isinstance(b, int | str) and not isinstance(b, bool) for b in blocks
    ):
        raise invalid(
            f'{where}: "{data.blocks_field}" must be a list of numbers or texts'
        )
    return Entry(
        at_seconds=at / 1000 if data.unit == "Milliseconds" else at,
        input_tokens=_tokens(line, data.input_tokens_field, where=where),
        output_tokens=_tokens(line, data.output_tokens_field, where=where),
        blocks=tuple(blocks),
    )


def _number(line: dict[str, Any], field_name: str, *, where: str) -> float:
    value = field_of(line, field_name, where=where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(
            f'{where}: "{field_name}" must be a number, but is {json_type(value)}'
        )
    # Also refuses NaN, which is neither, and what no float holds.
    if not 0 <= value <= sys.float_info.max:
        raise invalid(
            f'{where}: "{field_name}" must be 0 or more, but is {shorten(str(value), 40)}'
        )
    return float(value)


def _tokens(line: dict[str, Any], field_name: str, *, where: str) -> int:
    value = _number(line, field_name, where=where)
    if not 1 <= value <= MAX_TOKENS or value != int(value):
        shown = shorten(str(line[field_name]), 40)
        raise invalid(
            f'{where}: "{field_name}" must be a whole number from 1 to {MAX_TOKENS}, but is {shown}'
        )
    return int(value)
