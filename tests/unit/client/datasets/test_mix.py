"""`mix` data: several datasets in one stream, in the shares asked for."""

from pathlib import Path

import pytest
from benchrun_client.contract import MixableData, MixData, MixPartData
from benchrun_client.contract.datasets import CustomData, RandomData
from benchrun_client.datasets.row_pools import (
    PromptRequest,
    interleaved,
    portions_of,
    shared_out,
)
from benchrun_client.tokenizer import TokenCounter
from benchrun_client.traffic import check_lengths, find_material, write_traffic
from hypothesis import given, strategies as st
from unit.client.datasets.files import json_lines
from unit.client.plans import plan, stage, warmup
from unit.client.words import HubTokenizer


def mix(*parts: tuple[int, MixableData]) -> MixData:
    return MixData(
        parts=tuple(MixPartData(weight=weight, data=data) for weight, data in parts)
    )


def random(tokens: int) -> RandomData:
    return RandomData(input_tokens=tokens, output_tokens=2)


@given(
    requests=st.integers(0, 10_000),
    weights=st.lists(st.integers(1, 10_000), min_size=2, max_size=8),
)
def test_shares_add_up_and_are_less_than_one_request_off(
    requests: int, weights: list[int]
) -> None:
    shares = shared_out(requests, weights)
    assert sum(shares) == requests
    exact = [requests * weight / sum(weights) for weight in weights]
    assert all(
        abs(share - due) < 1 for share, due in zip(shares, exact, strict=True)
    )


def test_requests_come_by_weight_in_an_order_drawn_by_the_seed() -> None:
    data = mix((3, random(20)), (1, random(40)))
    given_plan = plan(
        *(
            stage(id=f"m/concurrency=1/r{n}", seed=n, requests=40, data=data)
            for n in (1, 2)
        )
    )
    counter = TokenCounter(HubTokenizer())
    first, second = write_traffic(
        given_plan, find_material(given_plan, counter), counter
    ).stages
    lengths = [[s.input_tokens for s in samples] for samples in (first, second)]
    assert [sorted(each) for each in lengths] == [[20] * 30 + [40] * 10] * 2
    assert lengths[0] != lengths[1]
    assert lengths[0] != sorted(lengths[0])
    assert len({s.prompt for s in (*first, *second)}) == 80


def test_samples_of_a_part_keep_their_order() -> None:
    parts = [[PromptRequest(f"{part}{n}", 1, 1) for n in range(5)] for part in "ab"]
    slot = stage(requests=10, data=mix((1, random(9)), (1, random(9))))
    merged = [s.prompt for s in interleaved(slot, parts)]
    assert [p for p in merged if p[0] == "a"] == [f"a{n}" for n in range(5)]
    assert [p for p in merged if p[0] == "b"] == [f"b{n}" for n in range(5)]


def test_parts_of_equal_datasets_have_seeds_of_their_own() -> None:
    one, other = portions_of(stage(data=mix((1, random(9)), (1, random(9)))))
    assert one.seed != other.seed


def test_a_dataset_too_light_for_one_request_sends_none() -> None:
    (only,) = portions_of(
        stage(requests=2, data=mix((1, random(9)), (1000, random(30))))
    )
    assert (only.part, only.requests) == (1, 2)


def test_rows_and_random_words_mix_and_what_was_read_is_reported_by_part(
    tmp_path: Path,
) -> None:
    file = json_lines(
        tmp_path, [{"prompt": f"word{n}", "output_tokens": 3} for n in range(6)]
    )
    data = mix((1, random(20)), (1, CustomData(file=file)))
    given_plan = plan(
        stage(requests=8, data=data), warmups=(warmup(requests=4, data=data),)
    )
    counter = TokenCounter(HubTokenizer())
    material = find_material(given_plan, counter)
    traffic = write_traffic(given_plan, material, counter)
    assert sorted(s.output_tokens for s in traffic.stages[0]) == [2] * 4 + [3] * 4
    ((facts,),) = traffic.datasets.values()
    assert (facts.part, facts.rows_read, facts.rows_used) == (1, 6, 6)
    with pytest.raises(Exception, match=r"20 input \+ 2 output = 22 tokens"):
        check_lengths(given_plan, material, context_tokens=21, whose="the model")
