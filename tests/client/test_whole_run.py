"""A whole run with the real load engine against a server of known timing: what arrives is what was
sent, when it was due.

One client process measures for all tests of this file.
"""

import json
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from benchrun_client.contract import (
    ClientProgress,
    Plan,
    RateLoad,
    SamplingParams,
    Stage,
    StageRecord,
    UsersLoad,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.server.round_trips import PAUSE_SECONDS, ROUND_TRIPS
from client.processes import TINY_MODEL, VLLM_PYTHON, client, free_port, simulator
from unit.client.plans import plan, sharegpt, stage, warmup

TTFT_MS = 100
TPOT_MS = 10
MAX_IDLE_SECONDS = 0.3
RATE = 20
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


def conversations(count: int) -> list[dict[str, Any]]:
    """Rows that differ from their first word on."""
    return [
        {
            "conversations": [
                {"value": f"{n} {' '.join(WORDS)}"},
                {"value": " ".join(WORDS * 2)},
            ]
        }
        for n in range(count)
    ]


def stages(rows: Path) -> tuple[Stage, ...]:
    data = RandomData(input_tokens=200, output_tokens=12)
    return (
        stage(
            id="chat/concurrency=4/r1",
            load=UsersLoad(concurrency=4),
            data=data,
            requests=16,
            seed=11,
        ),
        stage(
            id="chat/concurrency=4/r2",
            repeat=2,
            load=UsersLoad(concurrency=4),
            data=data,
            requests=16,
            seed=12,
        ),
        stage(
            id="open/rate=20/r1",
            workload="open",
            load=RateLoad(requests_per_second=str(RATE)),
            requests=30,
            seed=13,
        ),
        stage(
            id="talk/concurrency=4/r1",
            workload="talk",
            load=UsersLoad(concurrency=4),
            data=data,
            seed=14,
            api="Chat",
        ),
        stage(
            id="rows/concurrency=4/r1",
            workload="rows",
            load=UsersLoad(concurrency=4),
            data=sharegpt(str(rows), output_tokens=6),
            seed=15,
        ),
    )


@dataclass(frozen=True)
class Measured:
    """What the client of this file gave."""

    plan: Plan
    records: list[StageRecord]
    progress: ClientProgress
    exit_code: int
    headlines: list[dict[str, object]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("whole-run")
    port = free_port()
    rows = folder / "rows.json"
    rows.write_text(json.dumps(conversations(10)))
    whole = plan(
        *stages(rows),
        target={
            "base_url": f"http://localhost:{port}",
            "tokenizer": str(TINY_MODEL),
        },
        warmups=(
            warmup(
                requests=8,
                concurrency=4,
                data=RandomData(input_tokens=200, output_tokens=12),
            ),
        ),
        percentiles=("50", "99.9"),
    )
    with (
        simulator(
            "--sim-ttft-ms", str(TTFT_MS), "--sim-tpot-ms", str(TPOT_MS), port=port
        ),
        client(folder, whole) as running,
    ):
        records, progress = running.pull_all()
        return Measured(
            whole, records, progress, running.process.wait(), running.headlines()
        )


def test_every_stage_gives_its_record_and_the_client_exits_0(
    measured: Measured,
) -> None:
    assert [r.stage_id for r in measured.records] == [
        s.id for s in measured.plan.stages
    ]
    assert [len(r.requests.ok) for r in measured.records] == [
        s.requests for s in measured.plan.stages
    ]
    assert all(all(r.requests.ok) for r in measured.records)
    assert {r.plan_digest for r in measured.records} == {measured.plan.digest()}
    assert measured.exit_code == 0


def test_between_stages_the_server_waits_less_than_a_third_of_a_second(
    measured: Measured,
) -> None:
    # The open loop begins with a wait of its own: vLLM sleeps the first inter-arrival time before
    # the first request. Before the first stage the round trips are measured, once a run.
    first, *closed = [
        r.idle_before_us / 1e6
        for r in measured.records
        if not r.stage_id.startswith("open")
    ]
    assert max(closed) < MAX_IDLE_SECONDS
    assert first < ROUND_TRIPS * PAUSE_SECONDS + MAX_IDLE_SECONDS


def test_records_follow_each_other_on_the_clock(measured: Measured) -> None:
    for earlier, later in pairwise(measured.records):
        gap = later.first_send_unix_us - earlier.last_receive_unix_us
        assert later.idle_before_us == pytest.approx(gap, abs=5000)


def test_lengths_are_exact_as_the_server_counts_them(measured: Measured) -> None:
    assert [set(r.requests.input_tokens) for r in measured.records[:4]] == [
        {200},
        {200},
        {32},
        {200},
    ]
    assert [set(r.requests.output_tokens) for r in measured.records] == [
        {12},
        {12},
        {4},
        {12},
        {6},
    ]


def test_no_prompt_meets_another_in_the_prefix_cache(measured: Measured) -> None:
    edges = [r.servers[0] for r in measured.records]
    hits = [
        e.after["prefix_cache_hits_total"] - e.before["prefix_cache_hits_total"]
        for e in edges
        if e.before and e.after
    ]
    queries = [
        e.after["prefix_cache_queries_total"]
        - e.before["prefix_cache_queries_total"]
        for e in edges
        if e.before and e.after
    ]
    assert hits == [0.0] * 5
    assert min(queries) > 0


def test_each_window_holds_exactly_its_own_requests(measured: Measured) -> None:
    for record in measured.records:
        edge = record.servers[0]
        assert edge.before is not None
        assert edge.after is not None
        assert edge.after["request_success_total"] - edge.before[
            "request_success_total"
        ] == len(record.requests.ok)
    for earlier, later in pairwise(measured.records):
        assert earlier.servers[0].after == later.servers[0].before


def test_latencies_are_the_servers_and_little_more(measured: Measured) -> None:
    for record in measured.records:
        ttft_ms = median(record.requests.ttft_us) / 1000
        assert TTFT_MS - 1 <= ttft_ms < TTFT_MS + 40
        e2el_ms = median(record.requests.e2el_us) / 1000
        tokens = record.requests.output_tokens[0]
        assert e2el_ms == pytest.approx(TTFT_MS + (tokens - 1) * TPOT_MS, abs=60)


def test_our_columns_agree_with_vllms_own_figures(measured: Measured) -> None:
    for record in measured.records:
        scalars = record.scalars
        columns = record.requests
        assert scalars["completed"] == len(columns.ok)
        assert scalars["failed"] == 0
        assert scalars["total_input_tokens"] == sum(columns.input_tokens)
        assert scalars["total_output_tokens"] == sum(columns.output_tokens)
        assert scalars["median_ttft_ms"] == pytest.approx(
            median(columns.ttft_us) / 1000, abs=0.001
        )
        assert scalars["median_e2el_ms"] == pytest.approx(
            median(columns.e2el_us) / 1000, abs=0.001
        )
        assert "p99.9_itl_ms" in scalars
        # The role of a chat is no token: its gap counts on neither side.
        gaps = sum(record.gaps.count)
        assert gaps == sum(columns.output_tokens) - len(columns.ok)
        mean_us = (sum(columns.e2el_us) - sum(columns.ttft_us)) / gaps
        assert scalars["mean_itl_ms"] == pytest.approx(mean_us / 1000, abs=0.001)


def test_records_say_how_tokens_were_chosen_and_which_connections_were_opened(
    measured: Measured,
) -> None:
    for record in measured.records:
        assert record.sampling == SamplingParams()
        assert record.connections is not None
        # With four users; in the open loop one for each request that finds none idle.
        assert (
            1
            <= record.connections.opened
            <= (len(record.requests.ok) if "rate" in record.stage_id else 4)
        )
        assert 0 < record.connections.longest_us <= max(record.requests.ttft_us)


def test_arrivals_are_those_of_vllm_bench_serve_with_that_seed(
    measured: Measured,
) -> None:
    schedule = (
        "import numpy, json; numpy.random.seed(13);"
        f"due = numpy.cumsum([numpy.random.gamma(shape=1.0, scale=1 / {RATE}) for _ in range(30)]);"
        f"print(json.dumps(list(due * (30 / {RATE}) / due[-1])))"
    )
    due = json.loads(
        subprocess.run(
            [VLLM_PYTHON, "-c", schedule],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
    )
    sent = [us / 1e6 for us in measured.records[2].requests.start_us]
    late = [s - (d - due[0]) for s, d in zip(sent, due, strict=True)]
    assert median(late) == pytest.approx(0, abs=0.02)


def test_waiting_for_a_free_place_is_told_apart_from_waiting_for_the_server(
    measured: Measured,
) -> None:
    closed = measured.records[0].requests
    open_loop = measured.records[2].requests
    # Sixteen requests, four at a time: the last ones wait for three waves.
    assert max(closed.queue_us) > 3 * TTFT_MS * 1000
    assert sorted(closed.queue_us)[3] < TTFT_MS * 1000
    assert median(open_loop.queue_us) < 20_000


def test_repeats_send_different_prompts(measured: Measured) -> None:
    digests = [r.prompts_digest for r in measured.records]
    assert len(set(digests)) == len(digests)


def test_the_first_stage_tells_what_became_of_the_warm_up(
    measured: Measured,
) -> None:
    told = measured.records[0].warmup
    assert told is not None
    assert (told.requests, told.concurrency, told.answered, told.failed) == (
        8,
        4,
        8,
        0,
    )
    assert [record.warmup for record in measured.records[1:]] == [None] * (
        len(measured.records) - 1
    )


def test_the_progress_tells_the_instants_of_the_run(measured: Measured) -> None:
    progress = measured.progress
    first = measured.records[0]
    assert progress.healthy_unix_us is not None
    assert progress.warmup_us is not None
    assert progress.first_request_unix_us == pytest.approx(
        first.first_send_unix_us, abs=20_000
    )
    assert progress.warmup_us > 2 * (TTFT_MS + 11 * TPOT_MS) * 1000
    assert progress.failure is None


def test_the_client_tells_what_it_cost_itself(measured: Measured) -> None:
    for record in measured.records:
        assert 0 < record.client.cpu_seconds < record.client.wall_seconds
        assert record.engine.name == "vllm"
        assert not record.engine.trust_env


def test_the_path_was_measured_once_and_is_told_by_every_record(
    measured: Measured,
) -> None:
    (trips,) = {record.round_trips for record in measured.records}
    assert trips is not None
    assert trips.count == 20
    assert 0 < trips.median_us <= trips.p95_us < 50_000


def test_the_cpu_of_the_api_server_and_of_the_node_is_told(
    measured: Measured,
) -> None:
    cpu_seconds = []
    for record in measured.records:
        (edge,) = record.servers
        assert edge.before is not None
        assert edge.after is not None
        cpu_seconds += [
            each["process_cpu_seconds_total"] for each in (edge.before, edge.after)
        ]
        assert record.client.node_cpu_seconds is not None
        assert record.client.stolen_seconds is not None
        assert 0 <= record.client.stolen_seconds <= record.client.node_cpu_seconds
    assert cpu_seconds == sorted(cpu_seconds)
    assert (
        cpu_seconds[-1] > cpu_seconds[0]
    )  # One stage may take less than the kernel's tick of 10 ms.


def test_every_answer_came_to_its_end_at_the_length_asked_for(
    measured: Measured,
) -> None:
    for record in measured.records:
        assert record.requests.asked_tokens == record.requests.output_tokens
        assert set(record.requests.ended) == {1}


def test_the_server_is_known_by_its_version_and_its_settings(
    measured: Measured,
) -> None:
    (server,) = {
        (r.servers[0].version, r.servers[0].settings) for r in measured.records
    }
    version, settings = server
    assert version is not None
    assert version.startswith("0.")
    assert settings is not None
    assert len(settings) == 32


def test_how_late_the_client_came_is_told_and_is_little(measured: Measured) -> None:
    for record in measured.records:
        assert record.client.processes == 1
        assert record.client.lag_p99_us is not None
        assert record.client.lag_max_us is not None
        assert record.client.lag_p99_us <= record.client.lag_max_us < 250_000


def test_no_cache_is_reset_unless_the_policy_says_so(measured: Measured) -> None:
    assert {r.cache_reset for r in measured.records} == {None}


def test_every_record_has_its_headline_in_the_log(measured: Measured) -> None:
    assert [(h["sequence"], h["stage"]) for h in measured.headlines] == [
        (r.sequence, r.stage_id) for r in measured.records
    ]
