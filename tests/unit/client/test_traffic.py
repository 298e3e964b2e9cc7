"""A run's traffic: rows and prompts for every stage and warm-up, and no request longer than the
context."""

import json
from pathlib import Path

import pytest
from benchrun_client.contract import (
    CachePolicy,
    DataFile,
    DrawnLengths,
    Plan,
    RequestFields,
)
from benchrun_client.contract.datasets import (
    CustomData,
    PrefixRepetitionData,
    RandomData,
    TimedTraceData,
)
from benchrun_client.datasets.row_pools import PromptRequest, prompts_digest
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import TokenCounter
from benchrun_client.traffic import (
    Material,
    check_lengths,
    find_material,
    write_traffic,
)
from unit.client.plans import plan, sharegpt, sharegpt_stage, stage, warmup
from unit.client.words import WORDS, HubTokenizer, Thinker
from unit.golden_messages import golden

COUNTER = TokenCounter(HubTokenizer())


def rows_file(tmp_path: Path, rows: int) -> str:
    turns = [
        [{"value": " ".join(WORDS[n : n + 6])}, {"value": " ".join(WORDS[:5])}]
        for n in range(rows)
    ]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"conversations": pair} for pair in turns]))
    return str(file)


def test_every_stage_and_warmup_gets_its_own_samples(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 20)
    mixed = plan(
        sharegpt_stage(path, seed=1),
        stage(requests=3),
        sharegpt_stage(path, seed=2),
        warmups=(warmup(data=sharegpt(path)), warmup(requests=5)),
    )
    traffic = write_traffic(mixed, find_material(mixed, COUNTER), COUNTER)
    assert [len(samples) for samples in traffic.stages] == [4, 3, 4]
    assert [len(samples) for samples in traffic.warmups] == [2, 5]
    prompts = [
        s.prompt for samples in (*traffic.stages, *traffic.warmups) for s in samples
    ]
    assert len(set(prompts)) == len(prompts)


def shared(path: str) -> Plan:
    """Two workloads, each at two load points of different length, then the first once more."""
    return plan(
        stage(id="a/concurrency=2/r1", workload="a", requests=3, seed=7),
        stage(id="a/concurrency=4/r1", workload="a", requests=5, seed=7),
        sharegpt_stage(
            path, id="b/concurrency=2/r1", workload="b", requests=6, seed=8
        ),
        sharegpt_stage(
            path, id="b/concurrency=2/r2", workload="b", requests=4, seed=8
        ),
        stage(id="a/concurrency=2/r2", workload="a", requests=3, seed=7),
        warmups=(
            warmup(workload="a", seed=70),
            warmup(workload="b", seed=80, data=sharegpt(path)),
        ),
        cache_policy="Share",
    )


def test_under_share_all_stages_of_a_workload_send_the_same_and_rows_may_repeat(
    tmp_path: Path,
) -> None:
    given = shared(rows_file(tmp_path, 8))
    traffic = write_traffic(given, find_material(given, COUNTER), COUNTER)
    short, long, rows, fewer_rows, repeated = traffic.stages
    assert [len(samples) for samples in traffic.stages] == [3, 5, 6, 4, 3]
    assert short == long[:3] == repeated
    assert fewer_rows == rows[:4]
    assert prompts_digest(short) == prompts_digest(repeated)
    prompts = {s.prompt for s in (*long, *rows)}
    assert len(prompts) == 11
    assert not prompts & {s.prompt for samples in traffic.warmups for s in samples}


def test_under_share_a_file_needs_rows_for_the_longest_stage_only(
    tmp_path: Path,
) -> None:
    path = rows_file(tmp_path, 5)
    with pytest.raises(RunFailure, match="needs 6"):
        find_material(shared(path), COUNTER)


@pytest.mark.parametrize("policy", ["Isolate", "Reset"])
def test_under_every_other_policy_equal_seeds_still_make_different_prompts(
    policy: CachePolicy,
) -> None:
    given = plan(
        stage(seed=7),
        stage(seed=7, repeat=2, id="chat/concurrency=2/r2"),
        cache_policy=policy,
    )
    first, second = write_traffic(
        given, find_material(given, COUNTER), COUNTER
    ).stages
    assert not {s.prompt for s in first} & {s.prompt for s in second}


def test_rows_for_warmups_are_needed_too(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 5)
    greedy = plan(sharegpt_stage(path), warmups=(warmup(data=sharegpt(path)),))
    with pytest.raises(RunFailure, match="needs 6"):
        find_material(greedy, COUNTER)


def test_a_warm_up_repeats_rows_where_it_has_few(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 6)
    many = warmup(data=sharegpt(path), requests=9, prompts=2)
    given = plan(sharegpt_stage(path), warmups=(many,))
    traffic = write_traffic(given, find_material(given, COUNTER), COUNTER)
    (sent,) = traffic.warmups
    assert [len(sent), len(set(sent))] == [9, 2]
    assert sent[:2] == sent[2:4]
    assert not {s.prompt for s in sent} & {s.prompt for s in traffic.stages[0]}


def test_a_file_is_in_exactly_one_place() -> None:
    with pytest.raises(ValueError) as raised:
        DataFile()
    golden(str(raised.value))
    with pytest.raises(ValueError) as raised:
        DataFile(path="/a", url="http://b")
    golden(str(raised.value))


@pytest.mark.parametrize("context_tokens", [40, 41])
def test_a_request_that_fills_the_context_is_accepted(context_tokens: int) -> None:
    full = plan(stage(data=RandomData(input_tokens=30, output_tokens=10)))
    check_lengths(
        full, Material(), context_tokens=context_tokens, whose="the model"
    )


def test_a_request_longer_than_the_context_is_rejected_with_both_numbers() -> None:
    long = plan(stage(), stage(data=RandomData(input_tokens=30, output_tokens=10)))
    with pytest.raises(RunFailure) as failure:
        check_lengths(long, Material(), context_tokens=39, whose="the model")
    golden(str(failure.value))
    assert failure.value.reason == "PromptTooLong"


def test_drawn_lengths_are_checked_by_the_longest() -> None:
    lengths = DrawnLengths(mean=10, stdev=5, min=1, max=30)
    drawn = plan(
        stage(data=RandomData(input_lengths=lengths, output_lengths=lengths))
    )
    check_lengths(drawn, Material(), context_tokens=60, whose="the model")
    with pytest.raises(RunFailure) as raised:
        check_lengths(drawn, Material(), context_tokens=59, whose="the model")
    golden(str(raised.value))


def test_rows_are_checked_by_their_own_lengths() -> None:
    material = Material(
        rows={(0, 0): (PromptRequest("a", 5, 5), PromptRequest("b", 20, 25))}
    )
    with pytest.raises(RunFailure, match="45 tokens"):
        check_lengths(
            plan(sharegpt_stage("x")),
            material,
            context_tokens=44,
            whose="the model",
        )


def test_the_digest_tells_prompts_order_and_output_lengths_apart() -> None:
    a = PromptRequest("a", 1, 1)
    b = PromptRequest("b", 1, 1)
    different = [
        (a, b),
        (b, a),
        (a,),
        (PromptRequest("ab", 1, 1),),
        (a, PromptRequest("b", 1, 2)),
        (),
    ]
    digests = [prompts_digest(samples) for samples in different]
    assert len(set(digests)) == len(different)
    assert prompts_digest((a, b)) == digests[0]


def trace_file(tmp_path: Path, requests: int, **line: int) -> TimedTraceData:
    lines = [
        {"timestamp": n, "input_length": 30, "output_length": 4, **line}
        for n in range(requests)
    ]
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return TimedTraceData(
        file=DataFile(path=str(file)), unit="Seconds", block_tokens=8
    )


def test_a_warm_up_repeats_a_short_trace_and_a_stage_does_not(
    tmp_path: Path,
) -> None:
    data = trace_file(tmp_path, 3)
    given = plan(
        stage(data=data, requests=3), warmups=(warmup(data=data, requests=7),)
    )
    traffic = write_traffic(given, find_material(given, COUNTER), COUNTER)
    assert [s.at_seconds for s in traffic.stages[0]] == [0, 1, 2]
    assert len(traffic.warmups[0]) == 7
    (facts,) = traffic.datasets["chat"]
    assert (facts.rows_read, facts.rows_used) == (3, 3)
    with pytest.raises(RunFailure) as raised:
        find_material(plan(stage(data=data, requests=4)), COUNTER)
    golden(str(raised.value))


def test_recorded_lengths_are_checked_too(tmp_path: Path) -> None:
    given = plan(stage(data=trace_file(tmp_path, 4)))
    material = find_material(given, COUNTER)
    check_lengths(given, material, context_tokens=34, whose="the server")
    with pytest.raises(RunFailure) as raised:
        check_lengths(given, material, context_tokens=33, whose="the server")
    golden(str(raised.value))


def test_prefixes_count_with_what_follows_them() -> None:
    data = PrefixRepetitionData(
        prefixes=2, prefix_tokens=20, suffix_tokens=10, output_tokens=5
    )
    given = plan(stage(data=data))
    with pytest.raises(RunFailure) as raised:
        check_lengths(
            given,
            find_material(given, COUNTER),
            context_tokens=34,
            whose="the server",
        )
    golden(str(raised.value))


def test_rows_longer_than_the_model_takes_are_left_out_before_anything_is_rejected(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        {"prompt": " ".join(WORDS[n : n + 5]), "output_tokens": 40 if n < 3 else 4}
        for n in range(7)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    given = plan(stage(data=CustomData(file=DataFile(path=str(file)))))
    material = find_material(given, COUNTER, context_tokens=20)
    check_lengths(given, material, context_tokens=20, whose="the model")
    assert {s.output_tokens for s in material.rows[0, 0]} == {4}
    with pytest.raises(RunFailure) as raised:
        find_material(
            plan(given.stages[0], given.stages[0].model_copy(update={"seed": 2})),
            COUNTER,
            context_tokens=20,
        )
    golden(str(raised.value))


def test_a_dataset_of_texts_needs_no_words_of_the_tokenizer(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 6)
    poor = TokenCounter(HubTokenizer(WORDS[:10]))
    assert find_material(plan(sharegpt_stage(path)), poor).words == ()
    with pytest.raises(RunFailure, match="random data needs"):
        find_material(plan(sharegpt_stage(path), stage()), poor)


@pytest.mark.parametrize("policy", ["Isolate", "Share"])
def test_what_was_read_is_reported_once_for_each_workload(
    tmp_path: Path, policy: CachePolicy
) -> None:
    path = rows_file(tmp_path, 20)
    stages = [
        sharegpt_stage(path, id=f"chat/concurrency=2/r{n}", repeat=n, seed=n)
        for n in (1, 2)
    ]
    given = plan(
        *stages, warmups=(warmup(data=sharegpt(path)),), cache_policy=policy
    )
    ((facts,),) = find_material(given, COUNTER).datasets.values()
    assert (facts.source, facts.rows_read, facts.rows_used) == (
        path,
        20,
        10 if policy == "Isolate" else 4,
    )


def test_prompts_have_the_tokens_that_arguments_of_the_template_add() -> None:
    words = ["system", "user", "end", *WORDS]
    counter = TokenCounter(Thinker(words, chat_template="{{ messages }}"))
    fields = RequestFields(thinking=False, template_arguments='{"effort":"low"}')
    told = {"workload": "told", "api": "Chat", "fields": fields}
    given = plan(
        stage(api="Chat"),
        stage(id="told/concurrency=2/r1", **told),
        warmups=(warmup(**told),),
    )
    traffic = write_traffic(given, find_material(given, counter), counter)
    usual, more = (
        {request.input_tokens for request in requests}
        for requests in traffic.stages
    )
    assert usual == {32}
    assert more == {36} == {request.input_tokens for request in traffic.warmups[0]}
    prefixes = [traffic.prefix_tokens(each) for each in given.stages]
    assert prefixes[1] - prefixes[0] == 2


def test_prompts_have_the_tokens_of_their_tools() -> None:
    words = ["system", "user", "end", *WORDS]
    counter = TokenCounter(Thinker(words, chat_template="{{ messages }}"))
    fields = RequestFields(tools='[{"type":"function"},{"type":"function"},{}]')
    given = plan(
        stage(api="Chat"),
        stage(
            id="told/concurrency=2/r1", workload="told", api="Chat", fields=fields
        ),
    )
    traffic = write_traffic(given, find_material(given, counter), counter)
    assert [{r.input_tokens for r in each} for each in traffic.stages] == [
        {32},
        {35},
    ]
    prefixes = [traffic.prefix_tokens(each) for each in given.stages]
    assert prefixes[1] - prefixes[0] == 3
