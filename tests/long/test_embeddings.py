"""Embeddings of a real vLLM on a CPU, by the tiny model of the demo (`--runner pooling`)."""

from collections.abc import Iterator

import pytest
from benchrun.judge.results import results
from benchrun_client.contract import StageRecord, UsersLoad
from benchrun_client.contract.datasets import RandomData
from client.embedding_stages import several_texts
from client.processes import TINY_MODEL, client
from client.real_servers import VllmServer, vllm_server
from unit.client.plans import plan, stage, warmup
from unit.judge.specs import spec, workload
from unit.measure.records import load_point

pytestmark = pytest.mark.timeout(1800)

USERS, REQUESTS, PROMPT = 4, 200, 64
LISTS, TEXTS = 50, 4
"""Requests of several texts, and the texts of each."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    flags = (
        *("--served-model-name=tiny", "--max-model-len=1024", "--max-num-seqs=8"),
        "--runner=pooling",
    )
    log = tmp_path_factory.mktemp("pooling") / "server.log"
    with vllm_server(TINY_MODEL, flags, log) as running:
        running.wait_healthy()
        yield running


@pytest.fixture(scope="module")
def records(
    server: VllmServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[StageRecord, StageRecord]:
    """Measure a stage of one text a request, and one of several."""
    data = RandomData(input_tokens=PROMPT, output_tokens=1)
    asking = {"workload": "texts", "api": "Embeddings", "data": data}
    whole = plan(
        stage(
            id=f"texts/concurrency={USERS}/r1",
            load=UsersLoad(concurrency=USERS),
            requests=REQUESTS,
            **asking,
        ),
        several_texts(asking, users=USERS, requests=LISTS, texts=TEXTS),
        target={
            "engine": "VLLM",
            "base_url": server.url,
            "servers": 1,
            "served_model": "tiny",
            "tokenizer": str(TINY_MODEL),
        },
        warmups=(warmup(requests=16, concurrency=USERS, **asking),),
    )
    with client(tmp_path_factory.mktemp("client"), whole) as running:
        (alone, lists), _ = running.pull_all()
    return alone, lists


@pytest.fixture
def record(records: tuple[StageRecord, StageRecord]) -> StageRecord:
    return records[0]


def risen_counters(record: StageRecord) -> dict[str, float]:
    (edge,) = record.servers
    assert edge.before is not None
    assert edge.after is not None
    return {name: edge.after[name] - edge.before[name] for name in edge.before}


def test_it_counts_each_text_of_a_request_by_itself(
    records: tuple[StageRecord, StageRecord],
) -> None:
    _, record = records
    assert sum(record.requests.ok) == LISTS
    assert set(record.requests.input_tokens) == {TEXTS * PROMPT}
    risen = risen_counters(record)
    assert risen["request_success_total"] == LISTS * TEXTS
    assert risen["prompt_tokens_total"] == LISTS * TEXTS * PROMPT


def test_the_servers_counters_are_the_requests_own(record: StageRecord) -> None:
    assert sum(record.requests.ok) == REQUESTS
    assert set(record.requests.input_tokens) == {PROMPT}
    risen = risen_counters(record)
    assert risen["request_success_total"] == REQUESTS
    assert risen["prompt_tokens_total"] == REQUESTS * PROMPT
    assert risen["generation_tokens_total"] == 0
    # vLLM observes when an embedding is done as the time to its first token.
    assert risen["time_to_first_token_seconds_count"] == REQUESTS


def test_a_run_of_embeddings_has_no_finding_about_tokens(
    record: StageRecord,
) -> None:
    asked = workload(
        "texts",
        api="Embeddings",
        requests=REQUESTS,
        load={"concurrencies": [USERS]},
        dataset={"random": {"inputTokens": PROMPT}},
    )
    point = load_point("texts", axis="Concurrency", value=str(USERS))
    judged = results([point], [record], [], spec=spec(workloads=[asked]))
    (row,) = judged.results
    assert row.has_whole_answers
    assert (row.figure("total_token_throughput") or 0) > 0
    codes = {each.code for each in judged.findings}
    assert not codes & {
        "NoOutput",
        "OutputTooShort",
        "StreamTruncated",
        "TokenCountsDisagree",
        "PromptTokensDisagree",
        "ForeignTraffic",
        "RequestsAborted",
    }
