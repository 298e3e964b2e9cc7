"""Random prompts: exact in length, the same for the same seed, and never alike at their start
within a run."""

from collections.abc import Sequence
from statistics import NormalDist, fmean, pstdev

import pytest
from benchrun_client.contract import Api, DrawnLengths
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.random_words import (
    DISTINCT_WORDS,
    WordWriter,
    drawn_lengths,
    write_random,
)
from benchrun_client.datasets.row_pools import PromptRequest, Slot
from benchrun_client.failures import RunFailure
from unit.client.plans import stage, warmup
from unit.client.words import WORDS, WordCounter


def write(prompts: WordWriter, slot: Slot) -> tuple[PromptRequest, ...]:
    assert isinstance(slot.data, RandomData)
    return write_random(prompts, slot, slot.data)


def starts(samples: tuple[PromptRequest, ...]) -> list[tuple[str, ...]]:
    return [tuple(s.prompt.split()[:DISTINCT_WORDS]) for s in samples]


@pytest.mark.parametrize("api", ["Completions", "Chat"])
@pytest.mark.parametrize("input_tokens", [7, 8, 33, 500])
def test_prompts_are_as_long_as_requested_with_special_tokens_and_template(
    api: Api, input_tokens: int
) -> None:
    counter = WordCounter(special=1, template=5)
    slot = stage(
        api=api,
        requests=300,
        data=RandomData(input_tokens=input_tokens, output_tokens=3),
    )
    samples = write(WordWriter(words=WORDS, counter=counter), slot)
    assert len(samples) == 300
    assert {*counter.count([s.prompt for s in samples], api=api)} == {input_tokens}
    assert {(s.input_tokens, s.output_tokens) for s in samples} == {
        (input_tokens, 3)
    }


def test_words_that_count_double_are_made_up_for() -> None:
    counter = WordCounter(double=frozenset(WORDS[::3]))
    samples = write(
        WordWriter(words=WORDS[1:], counter=counter), stage(requests=50)
    )
    assert {*counter.count([s.prompt for s in samples], api="Completions")} == {32}


def test_no_two_prompts_of_a_run_start_alike() -> None:
    # Three words give 6,561 starts; half of them are asked for, and chance alone would repeat many.
    prompts = WordWriter(words=WORDS[:3], counter=WordCounter())
    slots: list[Slot] = [stage(seed=n, requests=400) for n in range(7)]
    found = [
        start
        for slot in [*slots, warmup(requests=400)]
        for start in starts(write(prompts, slot))
    ]
    assert len(found) == 3200
    assert len(set(found)) == len(found)


def test_the_same_seed_writes_the_same_prompts_whatever_came_before() -> None:
    counter = WordCounter()
    alone = write(WordWriter(words=WORDS, counter=counter), stage(seed=7))
    prompts = WordWriter(words=WORDS, counter=counter)
    write(prompts, stage(seed=6))
    assert write(prompts, stage(seed=7)) == alone


def test_another_seed_writes_other_prompts() -> None:
    prompts = WordWriter(words=WORDS, counter=WordCounter())
    assert not set(write(prompts, stage(seed=1))) & set(
        write(prompts, stage(seed=2))
    )


def test_these_prompts_never_change_between_releases() -> None:
    # Runs of different releases are compared request by request: equal seeds must go on giving
    # equal prompts.
    samples = write(
        WordWriter(words=WORDS, counter=WordCounter()),
        stage(seed=1, data=RandomData(input_tokens=8, output_tokens=1)),
    )
    assert samples[0].prompt == "dok sas ras gam lus let nuk rim"


def test_a_prompt_shorter_than_what_the_server_adds_is_rejected_with_the_number() -> (
    None
):
    prompts = WordWriter(words=WORDS, counter=WordCounter(template=40))
    with pytest.raises(RunFailure, match="take 40") as failure:
        write(prompts, stage(api="Chat"))
    assert failure.value.reason == "InvalidPlan"


def test_a_tokenizer_that_never_gives_the_length_is_rejected() -> None:
    class Odd(WordCounter):
        def count(self, texts: Sequence[str], *, api: Api) -> list[int]:
            return [2 * len(text.split()) + 1 for text in texts]

    with pytest.raises(RunFailure, match="exactly 32 tokens") as failure:
        write(WordWriter(words=WORDS, counter=Odd()), stage())
    assert failure.value.reason == "TokenizerUnusable"


DRAWN = DrawnLengths(mean=200, stdev=80, min=40, max=260)


def test_drawn_lengths_are_those_of_the_normal_distribution_between_its_cuts() -> (
    None
):
    lengths = drawn_lengths(
        RandomData(input_lengths=DRAWN, output_tokens=9), seed=1, requests=20_000
    )
    inputs = [tokens for tokens, _ in lengths]
    low, high = (
        (edge - DRAWN.mean) / DRAWN.stdev
        for edge in (DRAWN.min - 0.5, DRAWN.max + 0.5)
    )
    unit = NormalDist()
    mass = unit.cdf(high) - unit.cdf(low)
    # Johnson, Kotz, Balakrishnan 1994, 13.10.1.
    mean = DRAWN.mean + DRAWN.stdev * (unit.pdf(low) - unit.pdf(high)) / mass
    spread = (
        1
        + (low * unit.pdf(low) - high * unit.pdf(high)) / mass
        - ((unit.pdf(low) - unit.pdf(high)) / mass) ** 2
    )
    stdev = DRAWN.stdev * spread**0.5
    assert (min(inputs), max(inputs)) == (40, 260)
    assert fmean(inputs) == pytest.approx(mean, abs=4 * stdev / 20_000**0.5)
    assert pstdev(inputs) == pytest.approx(stdev, rel=0.03)
    assert {tokens for _, tokens in lengths} == {9}


@pytest.mark.parametrize("special", [0, 3])
def test_servers_that_are_compared_get_requests_of_the_same_lengths(
    special: int,
) -> None:
    """Whatever their tokenizers; and a longer stage begins with the same ones."""
    data = RandomData(
        input_lengths=DRAWN,
        output_lengths=DrawnLengths(mean=5, stdev=9, min=1, max=30),
    )
    counter = WordCounter(special=special)
    samples = write(
        WordWriter(words=WORDS, counter=counter),
        stage(seed=3, requests=300, data=data),
    )
    lengths = [(s.input_tokens, s.output_tokens) for s in samples]
    assert counter.count([s.prompt for s in samples], api="Completions") == [
        tokens for tokens, _ in lengths
    ]
    assert lengths == drawn_lengths(data, seed=3, requests=500)[:300]
    assert lengths != drawn_lengths(data, seed=4, requests=300)


@pytest.mark.parametrize("mean", [40, 41])
def test_a_distribution_far_wider_than_its_cuts_is_drawn_from_at_once(
    mean: int,
) -> None:
    lengths = DrawnLengths(mean=mean, stdev=10_000_000, min=40, max=41)
    found = drawn_lengths(RandomData(input_lengths=lengths), seed=1, requests=100)
    assert {tokens for tokens, _ in found} == {40, 41}
