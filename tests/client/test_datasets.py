"""Datasets on the wire: what a server finds in its prefix cache is what they declare, and a trace
comes when it was recorded.

One client process measures for all tests of this file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from benchrun_client.contract import (
    Data,
    DataFile,
    MixData,
    MixPartData,
    StageRecord,
    TraceLoad,
    UsersLoad,
)
from benchrun_client.contract.datasets import (
    AgentData,
    CustomData,
    PrefixRepetitionData,
    RandomData,
    TextsData,
    TimedTraceData,
)
from client.processes import TINY_MODEL, client, free_port, simulator
from unit.client.plans import plan, sharegpt, stage, warmup

REQUESTS = 12
GAP_SECONDS = 0.2
SPEED = 2
BLOCK_TOKENS = 16
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
]


def told(subject: object, sentences: int) -> str:
    return " ".join(
        f"{subject} {word} {n}." for n in range(sentences) for word in WORDS
    )


def written(folder: Path, name: str, text: str) -> DataFile:
    (folder / name).write_text(text)
    return DataFile(path=str(folder / name))


def datasets(folder: Path) -> Mapping[str, Data]:
    prompts = "".join(
        json.dumps({"prompt": told(n, 3), "output_tokens": 4}) + "\n"
        for n in range(40)
    )
    reviews = "review,label\n" + "".join(
        f'"{told(f"r{n}", 1)}",good\n' for n in range(40)
    )
    talk = {
        "messages": [
            {"role": "user", "content": told("you", 12)},
            {"role": "assistant", "content": "Yes, I do."},
        ]
    }
    recorded = "".join(
        json.dumps(
            {
                "timestamp": 5000 + n * GAP_SECONDS * 1000,
                "input_length": 100,
                "output_length": 4,
                "hash_ids": [n % 3, n],
            }
        )
        + "\n"
        for n in range(REQUESTS)
    )
    lines = written(folder, "prompts.jsonl", prompts)
    table = written(folder, "reviews.csv", reviews)
    conversation = written(folder, "talk.json", json.dumps(talk))
    return {
        "custom": CustomData(file=lines),
        "copies": TextsData(
            file=table,
            format="CSV",
            column="review",
            texts_per_prompt=2,
            output_tokens_per_text=1,
            duplicate=4,
        ),
        "static": AgentData(file=conversation, variants=1),
        "dynamic": AgentData(file=conversation),
        "prefixed": PrefixRepetitionData(
            prefixes=3, prefix_tokens=96, suffix_tokens=32, output_tokens=4
        ),
        "trace": TimedTraceData(
            file=written(folder, "trace.jsonl", recorded),
            unit="Milliseconds",
            block_tokens=64,
        ),
        "mixed": MixData(
            parts=(
                MixPartData(
                    weight=1, data=RandomData(input_tokens=64, output_tokens=4)
                ),
                MixPartData(weight=2, data=CustomData(file=lines)),
            )
        ),
        "vllm": RandomData(
            generator="VLLM", seed=0, input_tokens=80, output_tokens=4
        ),
        "vllm-longer": RandomData(
            generator="VLLM", seed=0, input_tokens=160, output_tokens=4
        ),
        "growing": AgentData(
            file=written(folder, "turns.json", json.dumps(_turns())),
            turns=3,
            input_output_ratio=20,
        ),
        "forced": sharegpt(str(_talks(folder)), output_tokens=2048),
    }


def _turns() -> dict[str, list[dict[str, str]]]:
    """Three answers, each after more to read."""
    roles = ["user", "assistant"] * 3
    return {
        "messages": [
            {"role": role, "content": told(f"{role} {n}", 3)}
            for n, role in enumerate(roles)
        ]
    }


def _talks(folder: Path) -> Path:
    """Of eight conversations four are too long for the model with 2048 more tokens."""
    file = folder / "talks.json"
    turns = [
        [{"value": told(f"t{n}", 1 if n % 2 else 40)}, {"value": "Well, yes."}]
        for n in range(8)
    ]
    file.write_text(json.dumps([{"conversations": pair} for pair in turns]))
    return file


@dataclass(frozen=True)
class Measured:
    """What the client of this file gave, by workload; two repeats each, but for the forced
    lengths."""

    records: Mapping[str, list[StageRecord]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("datasets")
    port = free_port()
    every = datasets(folder)
    stages = [
        stage(
            id=f"{name}/concurrency=2/r{repeat}",
            workload=name,
            repeat=repeat,
            data=data,
            requests=4 if name == "forced" else REQUESTS,
            seed=10 * number + repeat,
            load=TraceLoad(speed=str(SPEED))
            if name == "trace"
            else UsersLoad(concurrency=2),
        )
        for number, (name, data) in enumerate(every.items())
        for repeat in ((1,) if name == "forced" else (1, 2))
    ]
    whole = plan(
        *stages,
        target={
            "base_url": f"http://localhost:{port}",
            "tokenizer": str(TINY_MODEL),
            "context_tokens": 4096,
        },
        warmups=(warmup(workload="static", data=every["static"]),),
    )
    with (
        simulator("--sim-ttft-ms", "5", "--sim-tpot-ms", "0.1", port=port),
        client(folder, whole) as running,
    ):
        records, progress = running.pull_all()
        assert progress.failure is None
        assert running.process.wait() == 0
    found: dict[str, list[StageRecord]] = {}
    for record in records:
        found.setdefault(record.stage_id.partition("/")[0], []).append(record)
    return Measured(found)


def hit_tokens(record: StageRecord) -> float:
    edge = record.servers[0]
    assert edge.before is not None
    assert edge.after is not None
    return (
        edge.after["prefix_cache_hits_total"]
        - edge.before["prefix_cache_hits_total"]
    )


def declared(record: StageRecord) -> int:
    return record.repeated_tokens + record.shared_prefix_tokens * len(
        record.requests.ok
    )


def test_every_request_of_every_dataset_is_answered_at_the_length_asked_for(
    measured: Measured,
) -> None:
    for records in measured.records.values():
        for record in records:
            assert all(record.requests.ok)
            assert record.requests.output_tokens == record.requests.asked_tokens


def test_lengths_are_counted_as_the_server_counts_them(measured: Measured) -> None:
    for records in measured.records.values():
        for record in records:
            edge = record.servers[0]
            assert edge.before is not None
            assert edge.after is not None
            counted = (
                edge.after["prompt_tokens_total"]
                - edge.before["prompt_tokens_total"]
            )
            assert sum(record.requests.input_tokens) == counted


def test_a_shared_seed_sends_the_same_prompts_again_at_any_length(
    measured: Measured,
) -> None:
    """Of 80 tokens the cache has four blocks whole, since the last token is always computed."""
    blocks = BLOCK_TOKENS * REQUESTS
    first, second = map(hit_tokens, measured.records["vllm"])
    longer, again = map(hit_tokens, measured.records["vllm-longer"])
    assert first == 0
    assert 3.5 * blocks <= second <= 5 * blocks
    assert 4 * blocks <= longer <= 5 * blocks
    assert 8.5 * blocks <= again <= 10 * blocks


def test_a_growing_conversation_finds_its_last_request(measured: Measured) -> None:
    for record in measured.records["growing"]:
        assert hit_tokens(record) > 0.2 * sum(record.requests.input_tokens)
        ratios = [
            a / b
            for a, b in zip(
                record.requests.input_tokens,
                record.requests.asked_tokens,
                strict=True,
            )
        ]
        assert ratios == pytest.approx([20] * REQUESTS, rel=0.1)


@pytest.mark.parametrize(
    "workload",
    [
        "custom",
        "copies",
        "static",
        "dynamic",
        "growing",
        "prefixed",
        "trace",
        "mixed",
    ],
)
def test_nothing_is_found_in_the_cache_that_was_not_declared(
    measured: Measured, workload: str
) -> None:
    for record in measured.records[workload]:
        assert hit_tokens(record) <= declared(record)


@pytest.mark.parametrize("workload", ["custom", "mixed"])
def test_rows_that_differ_are_not_found_in_the_cache(
    measured: Measured, workload: str
) -> None:
    assert [hit_tokens(record) for record in measured.records[workload]] == [0, 0]


@pytest.mark.parametrize(
    ("workload", "of_prompt"),
    [
        pytest.param("static", 0.8, id="copies of a conversation"),
        pytest.param("copies", 0.6, id="each text four times"),
        pytest.param(
            "prefixed",
            0.5,
            id="three quarters of each prompt, from its second request on",
        ),
        pytest.param("trace", 0.4, id="two thirds of each prompt, in full blocks"),
    ],
)
def test_what_is_declared_is_really_found_in_each_repeat_alike(
    measured: Measured, workload: str, of_prompt: float
) -> None:
    """A second repeat that met the first one's prompts would find more."""
    first, second = measured.records[workload]
    for record in (first, second):
        assert hit_tokens(record) > of_prompt * sum(record.requests.input_tokens)
    assert (
        abs(hit_tokens(first) - hit_tokens(second)) <= 4 * BLOCK_TOKENS * REQUESTS
    )
    assert first.prompts_digest != second.prompts_digest


def test_a_clock_that_goes_on_leaves_next_to_nothing_for_the_cache(
    measured: Measured,
) -> None:
    for record in measured.records["dynamic"]:
        assert hit_tokens(record) <= 2 * BLOCK_TOKENS * REQUESTS
        assert hit_tokens(record) < 0.1 * sum(record.requests.input_tokens)


def test_a_trace_is_sent_when_it_was_recorded_at_the_speed_asked_for(
    measured: Measured,
) -> None:
    for record in measured.records["trace"]:
        sent = [us / 1e6 for us in record.requests.start_us]
        late = [at - n * GAP_SECONDS / SPEED for n, at in enumerate(sent)]
        assert median(late) == pytest.approx(0, abs=0.02)
        assert sent[-1] == pytest.approx(
            (REQUESTS - 1) * GAP_SECONDS / SPEED, abs=0.1
        )
        assert median(record.requests.queue_us) < 20_000


def test_a_forced_length_of_2048_measures_the_rows_that_fit_and_counts_the_others(
    measured: Measured,
) -> None:
    (record,) = measured.records["forced"]
    assert set(record.requests.output_tokens) == {2048}
    (facts,) = record.datasets
    assert (facts.rows_read, facts.rows_used) == (8, 4)
    assert set(facts.rows_dropped) <= {"TooLongForModel", "BeyondTokenLimits"}


def test_each_record_tells_what_was_read(measured: Measured) -> None:
    (custom,) = measured.records["custom"][0].datasets
    (mixed,) = measured.records["mixed"][0].datasets
    assert (custom.rows_read, custom.rows_used, custom.rows_dropped) == (
        40,
        2 * REQUESTS,
        {},
    )
    assert (mixed.part, mixed.sha256, mixed.rows_used) == (1, custom.sha256, 2 * 8)
    assert measured.records["prefixed"][0].datasets == ()
