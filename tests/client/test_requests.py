"""What requests say, by the real load engine against the simulated server: thinking, a schema and
adapters.

One client process measures for all tests of this file.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from benchrun_client.contract import (
    Adapter,
    AnswerCheck,
    RequestFields,
    Stage,
    StageRecord,
    UsersLoad,
)
from benchrun_client.contract.datasets import RandomData
from client.simulated_runs import against_simulator
from unit.client.plans import plan, stage

TPOT_MS = 20
REASONING = 5
OUTPUT = 12
SCHEMA = {
    "type": "object",
    "required": ["ok"],
    "properties": {"ok": {"type": "boolean"}},
}


def asking(workload: str, fields: RequestFields, *, seed: int) -> Stage:
    return stage(
        id=f"{workload}/concurrency=4/r1",
        workload=workload,
        load=UsersLoad(concurrency=4),
        data=RandomData(input_tokens=40, output_tokens=OUTPUT),
        requests=20,
        seed=seed,
        api="Chat",
        ignore_eos=False,
        fields=fields,
    )


STAGES = (
    asking("thinks", RequestFields(thinking=True), seed=1),
    asking("answers", RequestFields(thinking=False), seed=2),
    asking(
        "form",
        RequestFields(thinking=False, answer_schema=json.dumps(SCHEMA)),
        seed=3,
    ),
    asking(
        "adapted",
        RequestFields(
            thinking=False,
            adapters=(
                Adapter(name="sql", percent=50),
                Adapter(name="talk", percent=20),
            ),
        ),
        seed=4,
    ),
)


@dataclass(frozen=True)
class Measured:
    """The records, and the models that the server was asked for, by the stage's place."""

    records: list[StageRecord]
    models: list[Counter[str]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("requests")
    log = folder / "requests.jsonl"
    flags = (
        *("--sim-ttft-ms=50", f"--sim-tpot-ms={TPOT_MS}"),
        *(f"--sim-reasoning-tokens={REASONING}", f"--sim-log-requests={log}"),
        *("--enable-lora", "--lora-modules", "sql=/a", "talk=/b"),
    )
    with against_simulator(folder, plan(*STAGES), *flags) as running:
        records, _ = running.pull_all()
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    of_load = [each["model"] for each in sent][-20 * len(STAGES) :]
    return Measured(
        records,
        [Counter(of_load[at : at + 20]) for at in range(0, len(of_load), 20)],
    )


def test_the_answer_begins_after_the_reasoning(measured: Measured) -> None:
    columns = measured.records[0].requests
    assert columns.reasoning_us == columns.ttft_us
    assert columns.reasoning_tokens == (REASONING,) * 20
    gaps = [
        answer - first
        for first, answer in zip(columns.ttft_us, columns.answer_us, strict=True)
    ]
    assert all(gap > 0 for gap in gaps)
    assert median(gaps) == pytest.approx(REASONING * TPOT_MS * 1000, rel=0.4)


def test_without_thinking_there_is_no_reasoning(measured: Measured) -> None:
    assert [not each.requests.reasoning_us for each in measured.records] == [
        False,
        True,
        True,
        True,
    ]


def test_answers_are_checked_against_their_schema(measured: Measured) -> None:
    found = [each.answers for each in measured.records]
    assert found == [None, None, AnswerCheck(checked=20, broken=0), None]


def test_requests_are_for_adapters_by_their_shares(measured: Measured) -> None:
    assert measured.models[-1] == {"sql": 10, "talk": 4, "tiny": 6}
    assert measured.models[0] == {"tiny": 20}


def test_prompt_tokens_agree_with_the_servers(measured: Measured) -> None:
    for record in measured.records:
        assert sum(record.requests.input_tokens) == record.expected_input_tokens


def test_an_adapter_that_is_not_there_ends_the_run_before_load(
    tmp_path: Path,
) -> None:
    with against_simulator(tmp_path, plan(STAGES[-1])) as running:
        records, progress = running.pull_all()
    assert records == []
    assert progress.failure is not None
    assert progress.failure.reason == "ModelNotServed"
    assert "sql, talk" in progress.failure.message
