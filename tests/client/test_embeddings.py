"""Embeddings by vLLM's own benchmark back end against the simulated server, measured and judged.

One client process measures for all tests of this file.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchrun.judge.results import Judged, results
from benchrun_client.contract import RequestFields, StageRecord, UsersLoad
from benchrun_client.contract.datasets import RandomData
from client.embedding_stages import several_texts
from client.simulated_runs import against_simulator
from unit.client.plans import plan, stage, warmup
from unit.judge.specs import spec, workload
from unit.measure.records import load_point

USERS, REQUESTS, PROMPT = 4, 80, 64
LISTS, TEXTS = 20, 3
"""Requests of several texts, and the texts of each."""
EMBEDDING_MS = 40
EXTRA = {"dimensions": 32}


@dataclass(frozen=True)
class Measured:
    """The record of the stage, and the bodies of its requests as the server got them.

    `lists` is of another stage, whose requests have several texts each.
    """

    record: StageRecord
    bodies: list[dict[str, object]]
    lists: StageRecord


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("embeddings")
    log = folder / "requests.jsonl"
    asking = {
        "workload": "texts",
        "api": "Embeddings",
        "data": RandomData(input_tokens=PROMPT, output_tokens=1),
        "fields": RequestFields(extra=json.dumps(EXTRA)),
    }
    whole = plan(
        several_texts(asking, users=USERS, requests=LISTS, texts=TEXTS),
        stage(
            id=f"texts/concurrency={USERS}/r1",
            load=UsersLoad(concurrency=USERS),
            requests=REQUESTS,
            **asking,
        ),
        warmups=(warmup(requests=8, concurrency=USERS, **asking),),
    )
    flags = (
        "--runner=pooling",
        f"--sim-ttft-ms={EMBEDDING_MS}",
        f"--sim-log-requests={log}",
    )
    with against_simulator(folder, whole, *flags) as running:
        (lists, record), _ = running.pull_all()
    lines = log.read_text().splitlines()[-REQUESTS:]
    return Measured(record, [json.loads(line)["body"] for line in lines], lists)


def test_every_request_is_an_embeddings_own(measured: Measured) -> None:
    names = {frozenset(body) for body in measured.bodies}
    assert names == {
        frozenset({"model", "input", "truncate_prompt_tokens", *EXTRA})
    }
    assert len({str(body["input"]) for body in measured.bodies}) == REQUESTS


def test_a_record_has_whole_answers_and_the_servers_counts(
    measured: Measured,
) -> None:
    record = measured.record
    columns = record.requests
    assert record.whole_answers
    assert sum(columns.ok) == sum(columns.ended) == REQUESTS
    assert columns.ttft_us == columns.e2el_us
    assert min(columns.e2el_us) >= EMBEDDING_MS * 1000
    assert set(columns.input_tokens) == {PROMPT}
    assert set(columns.output_tokens) == set(columns.asked_tokens) == {0}
    assert record.expected_input_tokens == REQUESTS * PROMPT
    assert not record.gaps.us
    assert record.streams is None
    assert record.warmup is not None
    assert (record.warmup.answered, record.warmup.failed) == (8, 0)
    (edge,) = record.servers
    assert edge.before is not None
    assert edge.after is not None
    risen = {name: edge.after[name] - edge.before[name] for name in edge.before}
    assert risen["request_success_total"] == REQUESTS
    assert risen["prompt_tokens_total"] == REQUESTS * PROMPT
    assert risen["generation_tokens_total"] == 0


def test_a_server_counts_each_text_of_a_request_by_itself(
    measured: Measured,
) -> None:
    record = measured.lists
    columns = record.requests
    assert sum(columns.ok) == LISTS
    assert set(columns.input_tokens) == {TEXTS * PROMPT}
    assert record.expected_input_tokens == LISTS * TEXTS * PROMPT
    (edge,) = record.servers
    assert edge.before is not None
    assert edge.after is not None
    risen = {name: edge.after[name] - edge.before[name] for name in edge.before}
    assert risen["request_success_total"] == LISTS * TEXTS
    assert risen["prompt_tokens_total"] == LISTS * TEXTS * PROMPT
    found = {each.code for each in judged(record, texts=TEXTS).findings}
    assert not found & {"ForeignTraffic", "RequestsAborted", "PromptTokensDisagree"}
    alone = {each.code for each in judged(record).findings}
    assert "ForeignTraffic" in alone


def judged(record: StageRecord, *, texts: int | None = None) -> Judged:
    name = record.stage_id.partition("/")[0]
    asked = workload(
        name,
        api="Embeddings",
        requests=len(record.requests.ok),
        load={"concurrencies": [USERS]},
        dataset={"random": {"inputTokens": PROMPT}},
        **({} if texts is None else {"request": {"texts": texts}}),
    )
    point = load_point(name, axis="Concurrency", value=str(USERS))
    return results([point], [record], [], spec=spec(workloads=[asked]))


def test_its_figures_are_vllms_own(measured: Measured) -> None:
    own = measured.record.scalars
    (row,) = judged(measured.record).results
    for name in ("request_throughput", "total_token_throughput", "mean_e2el_ms"):
        assert row.metrics[name] == pytest.approx(own[name], rel=1e-3), name
    assert not [key for key in row.metrics if "tpot" in key or "ttft" in key]


def test_nothing_is_said_of_tokens(measured: Measured) -> None:
    found = {each.code for each in judged(measured.record).findings}
    assert not found & {
        "NoOutput",
        "OutputTooShort",
        "StreamTruncated",
        "TokenCountsDisagree",
        "PromptTokensDisagree",
        "ForeignTraffic",
    }


@pytest.mark.parametrize(
    ("flags", "api", "remedy"),
    [
        ((), "Embeddings", "--runner=pooling"),
        (("--runner=pooling",), "Chat", "api: Em"),
    ],
)
def test_a_server_of_the_other_kind_ends_the_run_before_load(
    tmp_path: Path, flags: tuple[str, ...], api: str, remedy: str
) -> None:
    with against_simulator(tmp_path, plan(stage(api=api)), *flags) as running:
        records, progress = running.pull_all()
    assert records == []
    assert progress.failure is not None
    assert progress.failure.reason == "EndpointNotFound"
    assert remedy in progress.failure.message
