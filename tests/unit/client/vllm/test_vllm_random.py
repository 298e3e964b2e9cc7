"""The generator VLLM: prompts by a seed that stages and workloads may share; `tests/client`
compares them with vLLM's own."""

import pytest
from benchrun_client.contract import CachePolicy, MixData, MixPartData, Plan
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.random_words import vllm_prompts
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import TokenCounter
from benchrun_client.traffic import Traffic, find_material, write_traffic
from unit.client.plans import plan, stage, warmup
from unit.client.words import HubTokenizer

COUNTER = TokenCounter(HubTokenizer())


def vllm(input_tokens: int, *, seed: int | None = 0) -> RandomData:
    return RandomData(
        generator="VLLM", seed=seed, input_tokens=input_tokens, output_tokens=4
    )


def written(given: Plan) -> Traffic:
    return write_traffic(given, find_material(given, COUNTER), COUNTER)


def riddle(policy: CachePolicy) -> Plan:
    """The same prompts, then longer answers, then longer prompts, as the operator plans it: each
    stage has a seed of its own."""
    lengths = [("short", 40), ("again", 40), ("longer", 60)]
    stages = [
        stage(
            id=f"{name}/rate=inf/r{n}",
            workload=name,
            repeat=n,
            seed=10 * place + n,
            requests=30,
            data=vllm(tokens),
        )
        for n in (1, 2)
        for place, (name, tokens) in enumerate(lengths)
    ]
    return plan(
        *stages,
        warmups=(warmup(workload="short", data=vllm(40), requests=30),),
        cache_policy=policy,
    )


@pytest.mark.parametrize("policy", ["Share", "Reset"])
def test_workloads_with_one_seed_send_the_same_prompts_as_far_as_they_are_long(
    policy: CachePolicy,
) -> None:
    traffic = written(riddle(policy))
    short, repeated, longer, *repeat = (
        [s.prompt.split() for s in samples] for samples in traffic.stages
    )
    assert short == repeated == [prompt[:39] for prompt in longer]
    assert repeat == [short, repeated, longer]
    # 39 words and the special token that the server adds, which vLLM leaves room for.
    assert {(s.input_tokens, s.output_tokens) for s in traffic.stages[0]} == {
        (40, 4)
    }


def test_a_warm_up_sends_none_of_it() -> None:
    traffic = written(riddle("Share"))
    measured = {s.prompt for samples in traffic.stages for s in samples}
    warming = [s.prompt for samples in traffic.warmups for s in samples]
    assert len(set(warming)) == 30
    assert not measured & set(warming)


def test_without_a_seed_of_its_own_each_stage_has_other_prompts() -> None:
    given = plan(
        stage(seed=1, data=vllm(40, seed=None)),
        stage(seed=2, data=vllm(40, seed=None)),
    )
    one, other = written(given).stages
    assert not {s.prompt for s in one} & {s.prompt for s in other}


def test_a_part_of_a_mix_has_its_seed_too() -> None:
    parts = (
        MixPartData(weight=1, data=vllm(40)),
        MixPartData(weight=1, data=RandomData(input_tokens=9, output_tokens=1)),
    )
    given = plan(
        stage(seed=5, requests=20, data=MixData(parts=parts)),
        warmups=(warmup(data=MixData(parts=parts)),),
    )
    traffic = written(given)
    own = vllm_prompts(COUNTER.tokenizer, seed=0, requests=10, input_tokens=40)
    assert [s.prompt for s in traffic.stages[0] if s.input_tokens == 40] == own
    assert not {s.prompt for s in traffic.warmups[0]} & set(own)


def test_more_prompts_than_tokens_repeat_one_another() -> None:
    prompts = vllm_prompts(
        HubTokenizer(["one", "two", "three"]), seed=0, requests=9, input_tokens=3
    )
    assert len(set(prompts)) <= 3


def test_a_prompt_with_room_for_special_tokens_alone_is_rejected() -> None:
    with pytest.raises(RunFailure, match="inputTokens 1 leaves no room") as failure:
        written(plan(stage(data=vllm(1))))
    assert failure.value.reason == "InvalidPlan"
