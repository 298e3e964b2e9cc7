"""What the datasets of a run have in store: every file is read once, and every row given away once."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain

from benchrun_client.contract import (
    AgentData,
    CustomData,
    Data,
    DatasetFacts,
    HuggingFaceData,
    MixData,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)
from benchrun_client.datasets.agent import Clock, agent_samples, read_conversation
from benchrun_client.datasets.files import name_of
from benchrun_client.datasets.prompts import (
    called,
    fit_custom,
    fit_sharegpt,
    read_custom,
    read_hugging_face,
    read_sharegpt,
)
from benchrun_client.datasets.rows import Fit, Fitting, RowFile, RowPool
from benchrun_client.datasets.samples import Counting, Portion, Sample, Slot, repeated_by
from benchrun_client.datasets.texts import duplicated, fit_texts, read_texts
from benchrun_client.datasets.timed_trace import Trace, read_trace

# ---- reading ----------------------------------------------------------------------------------------------------------
# Everything that takes rows: read once, whoever asks for it, and shared by all that take the same.

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


# ---- supply -----------------------------------------------------------------------------------------------------------
# What the datasets of a run have in store: every file is read once, and every row given away once.
#
# Before the client says it is ready: a dataset that is missing, broken or too small never takes a GPU.


class Supply:
    """Of one run. Portions get their rows in the order in which they ask."""

    def __init__(self, portions: Sequence[Portion], *, counter: Counting, context_tokens: int | None) -> None:
        """Read everything that these portions name. `context_tokens`: longest request that the model takes, if known.

        Raises:
            RunFailure: a dataset is missing or broken.
        """
        self._counter = counter
        self._context_tokens = context_tokens
        self._pools = read_pools(portions)
        every = dict.fromkeys(portion.data for portion in portions)
        self._conversations = {data: read_conversation(data) for data in every if isinstance(data, AgentData)}
        self._traces = {
            data: read_trace(data, context_tokens=context_tokens) for data in every if isinstance(data, TimedTraceData)
        }
        self._clock = Clock()

    def draw(self, portion: Portion) -> tuple[Sample, ...]:
        """Samples of a portion whose texts are there already.

        Raises:
            RunFailure: `DatasetTooSmall`.
        """
        if isinstance(portion.data, AgentData):
            conversation = self._conversations[portion.data]
            return agent_samples(conversation, portion, portion.data, counter=self._counter, clock=self._clock)
        assert isinstance(portion.data, RowData)
        pool = self._pools[portion.data]
        fit = self._fit(portion, portion.data, pool)
        samples = pool.draw(portion, fit, prompts=different_prompts(portion), rows_a_prompt=rows_a_prompt(portion.data))
        if not isinstance(portion.data, TextsData):
            return samples
        common = self._counter.shared_prefix(api=portion.api)
        return duplicated(samples, times=portion.data.duplicate, requests=portion.requests, shared_prefix=common)

    def trace(self, data: TimedTraceData) -> Trace:
        """A trace that was read."""
        return self._traces[data]

    def facts(self, portions: Iterable[Portion]) -> tuple[DatasetFacts, ...]:
        """What was read for one workload, given all its portions; known once these have drawn."""
        found: dict[int, DatasetFacts] = {}
        for portion in portions:
            match portion.data:
                case AgentData():
                    found[portion.part] = self._conversations[portion.data].facts(part=portion.part)
                case TimedTraceData():
                    used = max(portion.requests, found[0].rows_used if 0 in found else 0)
                    found[0] = self._traces[portion.data].facts(used=used)
                case ShareGPTData() | CustomData() | TextsData() | HuggingFaceData():
                    pool, source = self._pools[portion.data], source_name(portion.data)
                    found[portion.part] = pool.facts(portion.workload, portion.part, source=source)
        return tuple(found[part] for part in sorted(found))

    def _fit(self, portion: Portion, data: RowData, pool: RowPool) -> Fit:
        again = repeated_by(pool.common, counter=self._counter, api=portion.api)
        fitting = Fitting(self._counter, portion.api, self._context_tokens, again)
        match data:
            case ShareGPTData():
                return fit_sharegpt(data, fitting)
            case TextsData():
                return fit_texts(data, fitting)
            case CustomData() | HuggingFaceData():
                return fit_custom(data.output_tokens, fitting)


def is_drawn(data: Data) -> bool:
    """Whether its texts are there before the server is; others are written meanwhile."""
    return isinstance(data, AgentData | RowData)


# ---- mix --------------------------------------------------------------------------------------------------------------
# `mix` data: several datasets in one stream. Each stage gets their shares to the request, in an order drawn by its seed.

_VERSION = "benchrun.mix/1"


def portions_of(slot: Slot) -> tuple[Portion, ...]:
    """What each dataset of a slot is to give; a dataset too light for one request gives none."""
    if not isinstance(slot.data, MixData):
        return (Portion(slot.workload, 0, slot.data, slot.requests, slot.seed, slot.api),)
    shares = shared_out(slot.requests, [part.weight for part in slot.data.parts])
    return tuple(
        Portion(slot.workload, number, part.data, requests, _seed(slot.seed, number), slot.api)
        for number, (part, requests) in enumerate(zip(slot.data.parts, shares, strict=True))
        if requests
    )


def shared_out(requests: int, weights: Sequence[int]) -> list[int]:
    """Whole requests by weight: rounded down, and what is left goes to those that lost most (the earlier of equals)."""
    total = sum(weights)
    shares = [requests * weight // total for weight in weights]
    by_loss = sorted(range(len(weights)), key=lambda i: -(requests * weights[i] % total))
    for i in by_loss[: requests - sum(shares)]:
        shares[i] += 1
    return shares


def interleaved(slot: Slot, parts: Sequence[Sequence[Sample]]) -> tuple[Sample, ...]:
    """The samples of all portions in the order of sending; those of one portion keep theirs."""
    if len(parts) == 1:
        return tuple(parts[0])
    order = list(chain.from_iterable([number] * len(samples) for number, samples in enumerate(parts)))
    random.Random(slot.seed).shuffle(order)
    nexts = [iter(samples) for samples in parts]
    return tuple(next(nexts[number]) for number in order)


def _seed(seed: int, part: int) -> int:
    """32-bit seed of a part: parts of equal datasets say different things."""
    return int.from_bytes(hashlib.sha256(f"{_VERSION}\x1f{seed}\x1f{part}".encode()).digest()[:4], "big")
