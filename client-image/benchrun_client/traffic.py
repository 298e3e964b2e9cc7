"""All traffic of a run: the requests of every stage and warm-up.

Rows of a file are drawn before the client is ready, so that a dataset that is missing, broken or
too small never takes a GPU. Random prompts, which cannot be missing, are written while the server
loads its weights.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle, islice

from benchrun_client import contract
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.random_words import (
    WRITTEN_KINDS,
    Outline,
    Start,
    WordWriter,
)
from benchrun_client.datasets.row_pools import (
    Portion,
    PromptRequest,
    Slot,
    interleaved,
    portions_of,
    prompts_digest,
    with_template,
)
from benchrun_client.datasets.run_datasets import RunDatasets, is_drawn
from benchrun_client.failures import RunFailure
from benchrun_client.search.bisection import every_stage
from benchrun_client.tokenizer import TokenCounter

Place = tuple[int, int]
"""The position of a portion: the position of its slot among the run's slots (the stages in order,
then the warm-ups), and the position of its dataset in a mix."""


@dataclass(frozen=True)
class Traffic:
    """Requests that are ready to send, in the order of the plan's stages and warm-ups."""

    stages: tuple[tuple[PromptRequest, ...], ...]
    digests: tuple[str, ...]
    """Digest of each stage's prompts, computed beforehand: there is no time to hash megabytes
    between stages."""
    warmups: tuple[tuple[PromptRequest, ...], ...]
    """The last entry is the load to profile, if there is one."""
    probes: Mapping[str, tuple[PromptRequest, ...]] = field(default_factory=dict)
    """Requests of the stages of searches, or of those that are repeated until they are decided, by
    stage id. Random prompts of all but the first stage, or of the first repeat, are written once it
    is known which stages are needed."""
    starts: Collection[Start] = ()
    """First words of the random prompts; a prompt that is written later must begin differently."""
    shared_prefix_tokens: Mapping[contract.Api, int] = field(default_factory=dict)
    """Number of tokens that every prompt begins with, by API."""
    own_prefix_tokens: Mapping[str, int] = field(default_factory=dict)
    """Number of tokens that every prompt of a workload begins with, by workload: only of those that
    give the chat template arguments or tools of their own."""
    datasets: Mapping[str, tuple[contract.DatasetFacts, ...]] = field(
        default_factory=dict
    )
    """Facts about the data that was read, by workload."""
    chat_template: str | None = None
    """SHA-256 of the template that replaces the model's own; None: the model's own."""
    tokenizer_commit: str | None = None

    def prefix_tokens(self, sent: contract.Requests) -> int:
        """Return the number of tokens that every prompt of a stage begins with."""
        own = self.own_prefix_tokens.get(sent.workload)
        return self.shared_prefix_tokens.get(sent.api, 0) if own is None else own


@dataclass(frozen=True)
class Material:
    """What is found before the client is ready: rows, and what is needed to write other prompts."""

    rows: Mapping[Place, tuple[PromptRequest, ...]] = field(default_factory=dict)
    entries: Mapping[Place, Sequence[Outline]] = field(default_factory=dict)
    """Recorded requests whose texts are not written yet."""
    words: tuple[str, ...] = ()
    datasets: Mapping[str, tuple[contract.DatasetFacts, ...]] = field(
        default_factory=dict
    )


def slots_of(plan: contract.Plan) -> tuple[Slot, ...]:
    """Return every part of the run that sends requests: stages, then warm-ups.

    All possible stages of searches are included. A warm-up counts only its different prompts.
    """
    loads = [
        w.model_copy(update={"requests": min(w.prompts or w.requests, w.requests)})
        for w in plan.unmeasured
    ]
    return (*_measured(plan), *loads)


def is_written_late(plan: contract.Plan) -> bool:
    """Return whether prompts of some stages are written while others are measured."""
    return bool(_late(plan))


def _late(plan: contract.Plan) -> set[str]:
    """Return the ids of the stages whose prompts are written once it is known who follows."""
    chosen = chain.from_iterable(
        every_stage(search)[1:] for search in plan.searches
    )
    repeats = (s for s in plan.stages if plan.auto is not None and s.repeat > 1)
    return {
        stage.id
        for stage in chain(chosen, repeats)
        if isinstance(stage.data, RandomData) and plan.cache_policy != "Share"
    }


def _measured(plan: contract.Plan) -> tuple[contract.Stage, ...]:
    return (
        *plan.stages,
        *chain.from_iterable(every_stage(search) for search in plan.searches),
    )


def find_material(
    plan: contract.Plan, counter: TokenCounter, *, context_tokens: int | None = None
) -> Material:
    """Draw the rows of all stages, and collect words for random prompts.

    `context_tokens` is the longest request that the model takes, None if it is not known; longer
    rows are left out. Raises RunFailure if a dataset is missing, broken or too small, or if the
    tokenizer cannot write random prompts.
    """
    slots = slots_of(plan)
    sources = sources_of(plan)
    portions = {
        (i, portion.part): portion
        for i, slot in enumerate(slots)
        if sources[i] == i
        for portion in portions_of(slot)
    }
    supply = RunDatasets(
        tuple(portions.values()),
        counter=counter,
        context_tokens=context_tokens,
        shared=plan.cache_policy == "Share",
    )
    rows = {
        place: supply.draw(portion)
        for place, portion in portions.items()
        if is_drawn(portion.data)
    }
    entries = {
        place: recording.outlines(slots[place[0]])
        for place, portion in portions.items()
        if (recording := supply.recordings.get(portion.data)) is not None
    }
    words = tuple(counter.words()) if len(rows) < len(portions) else ()
    workloads = dict.fromkeys(slot.workload for slot in slots)
    datasets = {
        w: supply.facts(p for p in portions.values() if p.workload == w)
        for w in workloads
    }
    return Material(rows, entries, words, datasets)


def sources_of(plan: contract.Plan) -> tuple[int, ...]:
    """Return, for each stage or warm-up, the position of the one whose requests it sends.

    Positions are those in `slots_of`. Usually each sends its own requests. Under cachePolicy Share
    all stages of a workload send the first requests of its longest stage, as a script with a fixed
    seed would.
    """
    slots = slots_of(plan)
    own = tuple(range(len(slots)))
    if plan.cache_policy != "Share":
        return own
    longest: dict[str, int] = {}
    measured = _measured(plan)
    for i, stage in enumerate(measured):
        if stage.requests > slots[longest.setdefault(stage.workload, i)].requests:
            longest[stage.workload] = i
    return (
        tuple(longest[stage.workload] for stage in measured) + own[len(measured) :]
    )


def write_traffic(
    plan: contract.Plan, material: Material, counter: TokenCounter
) -> Traffic:
    """Write the random prompts, and return all requests of the run.

    Prompts that may never be needed are left out.
    """
    prompts = WordWriter(words=material.words, counter=counter)
    slots = slots_of(plan)
    sources = sources_of(plan)
    measured = _measured(plan)
    fixed = len(plan.stages) if plan.auto is None else 0
    late_ids = _late(plan)
    late = {i for i, stage in enumerate(measured) if stage.id in late_ids}
    made = {
        i: with_template(
            interleaved(
                slot,
                [
                    _samples(prompts, material, (i, p.part), p)
                    for p in portions_of(slot)
                ],
            ),
            slot,
            counter,
        )
        for i, slot in enumerate(slots)
        if sources[i] == i and i not in late
    }
    samples = {
        i: made[sources[i]][: slot.requests]
        for i, slot in enumerate(slots)
        if i not in late
    }
    stages = tuple(samples[i] for i in range(fixed))
    return Traffic(
        stages=stages,
        digests=tuple(map(prompts_digest, stages)),
        warmups=tuple(
            tuple(islice(cycle(samples[len(measured) + i]), warmup.requests))
            for i, warmup in enumerate(plan.unmeasured)
        ),
        probes={
            measured[i].id: samples[i]
            for i in range(fixed, len(measured))
            if i in samples
        },
        starts=prompts.starts,
        shared_prefix_tokens={
            api: counter.shared_prefix(api=api) for api in plan.apis
        },
        own_prefix_tokens={
            slot.workload: counter.shared_prefix(api=slot.api, arguments=arguments)
            for slot in slots
            if slot.api == "Chat" and (arguments := slot.asked.rendered_with)
        },
        datasets=material.datasets,
        chat_template=counter.template_digest,
        tokenizer_commit=counter.commit,
    )


def _samples(
    prompts: WordWriter, material: Material, place: Place, portion: Portion
) -> tuple[PromptRequest, ...]:
    if is_drawn(portion.data):
        return material.rows[place]
    kind = WRITTEN_KINDS[type(portion.data)]
    return kind.write(
        prompts, portion, portion.data, material.entries.get(place, ())
    )


def check_lengths(
    plan: contract.Plan, material: Material, *, context_tokens: int, whose: str
) -> None:
    """Raise RunFailure `PromptTooLong`, with both numbers, if a request exceeds the context."""
    for i, slot in enumerate(slots_of(plan)):
        for portion in portions_of(slot):
            for input_tokens, output_tokens in _lengths(
                portion, material, (i, portion.part)
            ):
                total = input_tokens + output_tokens
                if total > context_tokens:
                    message = (
                        f"{input_tokens} input + {output_tokens} output = {total} tokens do not "
                        "fit into the"
                    )
                    message = (
                        f"workload {slot.workload}: {message} {context_tokens} tokens of "
                        f"{whose}"
                    )
                    raise RunFailure("PromptTooLong", message)


def _lengths(
    portion: Portion, material: Material, place: Place
) -> Sequence[tuple[int, int]]:
    has_answers = portion.api not in contract.WHOLE_ANSWERS
    if portion.data.is_unlimited:
        prompt, answer = portion.data.longest
        assert prompt is not None
        assert answer is not None
        return [(prompt, answer if has_answers else 0)]
    # Under Share a stage without rows of its own sends rows that are checked with the stage that
    # has them.
    found: Sequence[Outline] = (
        material.rows.get(place) or material.entries.get(place) or ()
    )
    return [
        (request.input_tokens, request.output_tokens if has_answers else 0)
        for request in found
    ]
