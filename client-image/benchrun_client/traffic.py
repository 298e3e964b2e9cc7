"""All traffic of a run: the samples of every stage and warm-up.

Made in two steps. Rows of a file are drawn before the client says it is ready, so that a dataset that is missing, broken or
too small never takes a GPU. Random prompts, which cannot be missing, are written while the server loads its weights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchrun_client.contract import Plan, RandomData, ShareGPTData
from benchrun_client.datasets.fetching import fetch, shown_url
from benchrun_client.datasets.random_words import RandomPrompts
from benchrun_client.datasets.samples import Sample, Slot
from benchrun_client.datasets.sharegpt import MAX_FILE_BYTES, RowAssignment, read_sharegpt, rows_needed
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import Api, TokenCounter

FileKey = tuple[str | None, str | None]
Drawn = dict[int, tuple[Sample, ...]]
"""Samples by position among the run's slots: the stages in order, then the warm-ups."""


@dataclass(frozen=True)
class Traffic:
    """Samples ready to send, in the order of the plan's stages and warm-ups."""

    stages: tuple[tuple[Sample, ...], ...]
    warmups: tuple[tuple[Sample, ...], ...]
    shared_prefix_tokens: Mapping[Api, int] = field(default_factory=dict)
    """Tokens that every prompt of an endpoint begins with."""


@dataclass(frozen=True)
class Material:
    """What was found before ready: rows already drawn, words for what is still to be written."""

    rows: Drawn = field(default_factory=dict)
    words: tuple[str, ...] = ()


def slots_of(plan: Plan) -> tuple[Slot, ...]:
    """Every part of the run that sends requests."""
    return (*plan.stages, *plan.warmups)


def find_material(plan: Plan, counter: TokenCounter) -> Material:
    """Draw rows and collect words.

    Raises:
        RunFailure: a dataset is missing, broken or too small, or the tokenizer cannot write random prompts.
    """
    slots, sources = slots_of(plan), sources_of(plan)
    drawing = {i: slot for i, slot in enumerate(slots) if sources[i] == i}
    rows: Drawn = {}
    for file in dict.fromkeys((s.data.path, s.data.url) for s in slots if isinstance(s.data, ShareGPTData)):
        rows |= _draw_rows(drawing, file, counter)
    random_data = any(isinstance(s.data, RandomData) for s in slots)
    return Material(rows=rows, words=tuple(counter.words()) if random_data else ())


def sources_of(plan: Plan) -> tuple[int, ...]:
    """For each slot, the position of the slot whose samples it sends the first of: its own, but for stages under the policy
    Share. Those send what the longest stage of their workload does, as a script with a fixed seed would."""
    slots = slots_of(plan)
    own = tuple(range(len(slots)))
    if plan.cache_policy != "Share":
        return own
    longest: dict[str, int] = {}
    for i, stage in enumerate(plan.stages):
        if stage.requests > slots[longest.setdefault(stage.workload, i)].requests:
            longest[stage.workload] = i
    return tuple(longest[stage.workload] for stage in plan.stages) + own[len(plan.stages) :]


def _draw_rows(slots: Mapping[int, Slot], file: FileKey, counter: TokenCounter) -> Drawn:
    path, url = file
    if path is not None:
        data = read_sharegpt(Path(path), name=path)
    elif url is not None:
        fetched = asyncio.run(fetch(url, max_bytes=MAX_FILE_BYTES))
        data = read_sharegpt(fetched, name=shown_url(url))
        fetched.unlink()
    else:
        raise RunFailure("InvalidPlan", "shareGPT data needs a path or a url")
    assignment = RowAssignment(data, count_tokens=counter.count_text)
    needed = rows_needed(tuple(slots.values()), file)
    return {
        i: assignment.draw(slot, slot.data, needed_by_run=needed)
        for i, slot in slots.items()
        if isinstance(slot.data, ShareGPTData) and (slot.data.path, slot.data.url) == file
    }


def write_traffic(plan: Plan, material: Material, counter: TokenCounter) -> Traffic:
    """All samples of the run, random ones written now."""
    prompts = RandomPrompts(words=material.words, counter=counter)
    slots, sources = slots_of(plan), sources_of(plan)
    made = {
        i: material.rows[i] if not isinstance(slot.data, RandomData) else prompts.write(slot, slot.data)
        for i, slot in enumerate(slots)
        if sources[i] == i
    }
    samples = tuple(made[source][: slot.requests] for slot, source in zip(slots, sources, strict=True))
    return Traffic(
        stages=samples[: len(plan.stages)],
        warmups=samples[len(plan.stages) :],
        shared_prefix_tokens={api: counter.shared_prefix(api=api) for api in {stage.api for stage in plan.stages}},
    )


def check_lengths(plan: Plan, material: Material, *, context_tokens: int, whose: str) -> None:
    """Refuse a run whose longest request does not fit the context.

    Raises:
        RunFailure: `PromptTooLong`, with both numbers.
    """
    for i, slot in enumerate(slots_of(plan)):
        # Under Share a stage without rows of its own sends rows that are checked with the stage that has them.
        for input_tokens, output_tokens in _lengths(slot, material.rows.get(i, ())):
            total = input_tokens + output_tokens
            if total > context_tokens:
                raise RunFailure(
                    "PromptTooLong",
                    f"workload {slot.workload}: {input_tokens} input + {output_tokens} output = {total} tokens do not fit into "
                    f"the {context_tokens} tokens of {whose}",
                )


def _lengths(slot: Slot, rows: Sequence[Sample]) -> list[tuple[int, int]]:
    if isinstance(slot.data, RandomData):
        return [(slot.data.input_tokens, slot.data.output_tokens)]
    return [(sample.input_tokens, sample.output_tokens) for sample in rows]
