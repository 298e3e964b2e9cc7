"""The generator of vLLM 0.9, held against totals that its tool printed and against the hits that
its beginnings give; the prompts as its author sent them."""

import pytest
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.random_words import old_vllm_draws
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import TokenCounter
from benchrun_client.traffic import find_material, write_traffic
from unit.client.plans import plan, stage, warmup
from unit.client.words import HubTokenizer

VOCABULARY = 151_643  # Of Qwen2.5.
BLOCK = 16
Prompt = tuple[int, int]  # First token and length.


def old(input_tokens: int, output_tokens: int) -> RandomData:
    return RandomData(
        generator="VLLM",
        version="0.9",
        range_ratio="0.1",
        seed=0,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def prompts(
    input_tokens: int, output_tokens: int, *, requests: int
) -> list[Prompt]:
    drawn = old_vllm_draws(
        old(input_tokens, output_tokens),
        seed=0,
        requests=requests,
        vocabulary=VOCABULARY,
    )
    return list(zip(drawn.starts(VOCABULARY), drawn.inputs, strict=True))


def hit_percent(sent: list[list[Prompt]]) -> float:
    """Of the last run's tokens: whole blocks that begin a prompt sent before it. A block is only
    found after all blocks before it, so a prompt finds those of one that begins alike."""
    *before, last = sent
    cached: dict[int, int] = {}
    for start, length in (prompt for run in before for prompt in run):
        cached[start] = max(cached.get(start, 0), length)
    found = sum(
        min(cached.get(start, 0), length) // BLOCK * BLOCK for start, length in last
    )
    return 100 * found / sum(length for _, length in last)


@pytest.mark.parametrize(
    ("input_tokens", "output_tokens", "requests", "total"),
    [(7000, 3000, 10, 71_443), (12_000, 1000, 1, 12_453)],
)
def test_input_tokens_are_those_that_the_tool_printed(
    input_tokens: int, output_tokens: int, requests: int, total: int
) -> None:
    assert (
        sum(n for _, n in prompts(input_tokens, output_tokens, requests=requests))
        == total
    )


ORDER = [(7000, 1000), (7000, 1000), (7000, 3000), (10_000, 3000), (7000, 3000)]


def test_seven_prompts_a_run_give_the_hits_that_were_seen() -> None:
    runs = [prompts(*lengths, requests=7) for lengths in ORDER]
    # The first run finds what its own test request left: prompt 1.
    hits = [hit_percent([runs[0][:1], runs[0]])]
    hits += [
        hit_percent([*runs[:n], runs[n][:1], runs[n]]) for n in range(1, len(runs))
    ]
    assert [round(each, 1) for each in hits] == [13.8, 99.9, 99.9, 13.7, 99.9]


def test_a_longer_run_before_does_not_help_where_it_begins_otherwise() -> None:
    before, after = (
        prompts(*each, requests=7) for each in ((12_000, 3000), (7000, 1000))
    )
    assert round(hit_percent([before, after[:1], after]), 1) == 13.8


def test_a_stage_sends_them_and_a_warm_up_none_of_them() -> None:
    counter = TokenCounter(HubTokenizer())
    data = old(40, 20)
    given = plan(
        stage(seed=7, requests=12, data=data),
        stage(id="chat/rate=inf/r2", repeat=2, seed=8, requests=12, data=data),
        warmups=(warmup(data=data, requests=12),),
        cache_policy="Share",
    )
    traffic = write_traffic(given, find_material(given, counter), counter)
    first, again = traffic.stages
    drawn = old_vllm_draws(
        data, seed=0, requests=12, vocabulary=counter.tokenizer.vocab_size
    )
    assert [s.prompt for s in first] == [s.prompt for s in again]
    assert [len(s.prompt.split()) for s in first] == list(drawn.inputs)
    assert [s.output_tokens for s in first] == list(drawn.outputs)
    assert min(drawn.inputs) < 40 < max(drawn.inputs)
    assert not {s.prompt for s in first} & {s.prompt for s in traffic.warmups[0]}


def test_a_range_that_begins_below_one_token_is_refused() -> None:
    counter = TokenCounter(HubTokenizer())
    data = old(1, 20)
    given = plan(stage(data=data), warmups=(), cache_policy="Share")
    with pytest.raises(RunFailure, match="inputTokens"):
        write_traffic(given, find_material(given, counter), counter)
