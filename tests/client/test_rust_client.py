"""A whole run with vLLM's real client in Rust: what it says, held against the server's own log and vLLM's Python client."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from benchrun_client.contract import CustomData, DataFile, LoadPoint, Plan, Progress, RandomData, StageRecord
from client.processes import TINY_MODEL, client, free_port, simulator
from client.rust_client import RUST_CLIENT, rust_client_on_path
from kit.polling import polling
from unit.client.plans import plan, stage, warmup

TTFT_MS, TPOT_MS = 60, 10
DATA = RandomData(input_tokens=200, output_tokens=12)
STAGES = (
    stage(id="chat/concurrency=16/r1", load=LoadPoint(max_concurrency=16), data=DATA, requests=96, seed=11),
    stage(id="open/rate=30/r1", workload="open", load=LoadPoint(request_rate="30"), requests=60, seed=13),
    stage(
        id="talk/concurrency=4/r1",
        workload="talk",
        load=LoadPoint(max_concurrency=4),
        data=DATA,
        requests=16,
        seed=14,
        api="Chat",
    ),
)
WARMUP_REQUESTS = 8
CANARIES = 2
"""One request for each endpoint, before anything else."""


@dataclass(frozen=True)
class Measured:
    """What a client gave, and the server's log of the same requests in the order they came."""

    plan: Plan
    records: list[StageRecord]
    progress: Progress
    exit_code: int
    log: list[dict[str, Any]]

    def logged(self, number: int) -> list[dict[str, Any]]:
        """Of a stage. They follow on one another, and on canaries and the warm-up."""
        before = CANARIES + WARMUP_REQUESTS + sum(s.requests for s in self.plan.stages[:number])
        return self.log[before : before + self.plan.stages[number].requests]


def different_lengths(folder: Path) -> CustomData:
    """Prompts and answers of which no two have the same two lengths."""
    rows = ({"prompt": f"{n} " + "word " * (n + 1), "output_tokens": 2 + n * 7 % 31} for n in range(60))
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CustomData(file=DataFile(path=str(file)))


def asked(folder: Path, port: int, *, engine: str) -> Plan:
    chat, of_rate, talk = STAGES
    return plan(
        *(chat, of_rate.model_copy(update={"data": different_lengths(folder)}), talk),
        target={"base_url": f"http://localhost:{port}", "tokenizer": str(TINY_MODEL)},
        warmups=(warmup(requests=WARMUP_REQUESTS, concurrency=4, data=DATA),),
        engine=engine,
    )


def measure(folder: Path, *, engine: str) -> Measured:
    port, log = free_port(), folder / "requests.jsonl"
    whole = asked(folder, port, engine=engine)
    flags = ("--sim-ttft-ms", str(TTFT_MS), "--sim-tpot-ms", str(TPOT_MS), "--sim-log-requests", str(log))
    with simulator(*flags, port=port), client(folder, whole) as running:
        records, progress = running.pull_all()
        _wait_for_lines(log, CANARIES + WARMUP_REQUESTS + sum(s.requests for s in STAGES))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return Measured(
        whole, records, progress, running.process.wait(), sorted(lines, key=lambda line: float(line["arrived_at"]))
    )


def _wait_for_lines(log: Path, count: int) -> None:
    for _ in polling(f"{count} lines in the simulator's log", seconds=10):
        if len(log.read_text().splitlines()) >= count:
            break


@pytest.fixture(scope="module")
def rust(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    with rust_client_on_path():
        return measure(tmp_path_factory.mktemp("rust"), engine="VLLMRust")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measure(tmp_path_factory.mktemp("python"), engine="VLLM")


def test_every_stage_gives_its_record_and_names_the_engine(rust: Measured) -> None:
    assert rust.exit_code == 0
    assert rust.progress.phase == "Done"
    assert [r.stage_id for r in rust.records] == [s.id for s in STAGES]
    assert {(r.engine.name, r.engine.version) for r in rust.records} == {("vllm-rs", "0.32.0")}


def test_all_requests_are_counted_by_client_and_server_alike(rust: Measured) -> None:
    assert len(rust.log) == CANARIES + WARMUP_REQUESTS + sum(s.requests for s in STAGES)
    for record, asked_for in zip(rust.records, STAGES, strict=True):
        assert record.requests.ok == (1,) * asked_for.requests
        (server,) = record.servers
        assert server.before is not None
        assert server.after is not None
        name = "request_success_total"
        assert server.after[name] - server.before[name] == asked_for.requests


def test_it_sends_the_prompts_that_the_python_client_sends(rust: Measured, python: Measured) -> None:
    assert [r.prompts_digest for r in rust.records] == [r.prompts_digest for r in python.records]
    for number in range(len(STAGES)):
        assert lengths(rust.logged(number)) == lengths(python.logged(number))
        columns = rust.records[number].requests
        assert Counter(zip(columns.input_tokens, columns.output_tokens, strict=True)) == lengths(rust.logged(number))


def lengths(logged: Sequence[dict[str, Any]]) -> Counter[tuple[int, int]]:
    return Counter((line["prompt_tokens"], line["output_tokens"]) for line in logged)


def test_latencies_are_those_of_the_servers_log(rust: Measured) -> None:
    for number, record in enumerate(rust.records):
        logged, columns = rust.logged(number), record.requests
        ttft_ms = 1000 * mean(line["first_sent_at"] - line["arrived_at"] for line in logged)
        assert mean(columns.ttft_us) / 1000 == pytest.approx(ttft_ms, abs=8)
        assert mean(columns.ttft_us) / 1000 > ttft_ms
        tokens_after_the_first = sum(line["output_tokens"] - 1 for line in logged)
        tpot_ms = 1000 * sum(line["last_sent_at"] - line["first_sent_at"] for line in logged) / tokens_after_the_first
        decode_us = sum(columns.e2el_us) - sum(columns.ttft_us)
        assert decode_us / 1000 / tokens_after_the_first == pytest.approx(tpot_ms, abs=0.2)


def test_instants_are_those_of_the_servers_log(rust: Measured) -> None:
    unix_minus_monotonic = time.time() - time.monotonic()
    for number, record in enumerate(rust.records):
        sent = [(record.first_send_unix_us + start) / 1e6 for start in record.requests.start_us]
        arrived = [line["arrived_at"] + unix_minus_monotonic for line in rust.logged(number)]
        assert sent == sorted(sent)
        late = [at - when for at, when in zip(arrived, sent, strict=True)]
        assert max(map(abs, late)) < 0.05
        assert abs(mean(late)) < 0.02


def test_open_loop_arrivals_take_as_long_as_the_rate_says(rust: Measured) -> None:
    record, asked_for = rust.records[1], STAGES[1]
    assert record.requests.start_us[-1] / 1e6 == pytest.approx(asked_for.requests / 30, rel=0.1)


def test_what_it_does_not_tell_is_left_empty(rust: Measured) -> None:
    for record in rust.records:
        assert record.requests.queue_us == ()
        assert record.client.lag_p99_us is None
        assert record.client.lag_max_us is None


def test_every_answer_came_to_its_end_at_the_length_asked_for(rust: Measured, python: Measured) -> None:
    for record, other in zip(rust.records, python.records, strict=True):
        assert set(record.requests.ended) == {1}
        assert record.requests.output_tokens == record.requests.asked_tokens
        assert sum(record.gaps.count) == sum(other.gaps.count) > 0


def test_its_figures_are_told_under_vllms_names_and_agree_with_ours(rust: Measured, python: Measured) -> None:
    for record, other in zip(rust.records, python.records, strict=True):
        scalars, columns = record.scalars, record.requests
        assert scalars["completed"] == len(columns.ok)
        assert scalars["total_input_tokens"] == sum(columns.input_tokens) == other.scalars["total_input_tokens"]
        assert scalars["total_output_tokens"] == sum(columns.output_tokens) == other.scalars["total_output_tokens"]
        assert scalars["mean_ttft_ms"] == pytest.approx(mean(columns.ttft_us) / 1000, abs=0.001)
        assert scalars["mean_e2el_ms"] == pytest.approx(mean(columns.e2el_us) / 1000, abs=0.001)


def test_its_own_cpu_is_what_the_client_cost(rust: Measured) -> None:
    for record in rust.records:
        assert 0 < record.client.cpu_seconds < record.client.wall_seconds
        assert record.client.processes >= 1
        spans = record.requests.start_us[-1] + record.requests.e2el_us[-1]
        assert record.client.wall_seconds == pytest.approx(spans / 1e6, abs=0.3)


def test_the_first_stage_tells_what_became_of_the_warm_up(rust: Measured) -> None:
    outcome = rust.records[0].warmup
    assert outcome is not None
    assert (outcome.requests, outcome.answered, outcome.failed) == (WARMUP_REQUESTS, WARMUP_REQUESTS, 0)


def one_stage(folder: Path, *flags: str, **changes: Any) -> tuple[list[StageRecord], Progress]:
    port = free_port()
    whole = plan(
        stage(load=LoadPoint(max_concurrency=4), data=DATA, requests=20, seed=5),
        target={"base_url": f"http://localhost:{port}", "tokenizer": str(TINY_MODEL)},
        engine="VLLMRust",
        **changes,
    )
    with rust_client_on_path(), simulator(*flags, port=port), client(folder, whole) as running:
        return running.pull_all()


def test_failed_requests_are_told_in_the_servers_words(tmp_path: Path) -> None:
    ((record,), _) = one_stage(tmp_path, "--sim-error-percent", "20", "--sim-ttft-ms", "5")
    assert record.requests.ok.count(0) in (4, 5)
    assert sum(record.errors.values()) == record.requests.ok.count(0)
    assert all(error.startswith("HTTP 500") for error in record.errors)


def test_an_answer_that_may_have_broken_off_makes_all_ends_unknown(tmp_path: Path) -> None:
    ((record,), _) = one_stage(tmp_path, "--sim-drop-end-percent", "20", "--sim-ttft-ms", "5")
    assert set(record.requests.ok) == {1}
    assert record.requests.ended == ()
    assert sum(record.requests.output_tokens) < sum(record.requests.asked_tokens)


def test_of_a_warm_up_that_was_cut_short_nothing_is_claimed(tmp_path: Path) -> None:
    slow = warmup(requests=4, concurrency=1, data=DATA, max_seconds=1)
    ((record,), _) = one_stage(tmp_path, "--sim-ttft-ms", "900", "--sim-tpot-ms", "1", warmups=(slow,))
    assert record.warmup is not None
    assert (record.warmup.answered, record.warmup.failed) == (None, None)
    assert record.warmup.took_us >= 1_000_000
    assert set(record.requests.ok) == {1}


def test_an_image_without_it_is_refused_before_a_server_is_needed(tmp_path: Path) -> None:
    assert RUST_CLIENT.name == "vllm-rs"
    with client(tmp_path, asked(tmp_path, free_port(), engine="VLLMRust")) as running:
        running.wait_for_phase("Failed")
        assert running.process.wait() == 2
    failure = running.termination_message()
    assert failure.reason == "EngineMissing"
    assert "client.image" in failure.message
