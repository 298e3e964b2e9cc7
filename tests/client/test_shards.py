"""One load from two processes of the real client: one record a stage, as one process would have
given it.

The same plan is measured by one process and by two.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest
from benchrun_client.contract import (
    ClientProgress,
    Plan,
    RateLoad,
    Stage,
    StageRecord,
    UsersLoad,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.server.round_trips import PAUSE_SECONDS, ROUND_TRIPS
from client.processes import (
    TINY_MODEL,
    client,
    client_of_two_pods,
    free_port,
    simulator,
)
from unit.client.plans import plan, stage, warmup

TTFT_MS = 60
TPOT_MS = 5
MAX_SKEW_US = 20_000
MAX_IDLE_SECONDS = 1.0
LOST_SECONDS = 10.0


def stages() -> tuple[Stage, ...]:
    data = RandomData(input_tokens=64, output_tokens=12)
    return (
        stage(
            id="chat/concurrency=6/r1",
            load=UsersLoad(concurrency=6),
            data=data,
            requests=31,
            seed=11,
        ),
        stage(
            id="open/rate=30/r1",
            workload="open",
            load=RateLoad(requests_per_second="30"),
            requests=60,
            seed=13,
        ),
        stage(
            id="capped/rate=60/r1",
            workload="capped",
            load=RateLoad(
                requests_per_second="60", max_concurrency=5, burstiness="2"
            ),
            requests=41,
            seed=14,
        ),
        # One user: the second shard has nothing to send.
        stage(
            id="alone/concurrency=1/r1",
            workload="alone",
            load=UsersLoad(concurrency=1),
            requests=5,
            seed=15,
        ),
    )


def whole_plan(port: int, *listed: Stage) -> Plan:
    return plan(
        *listed,
        target={
            "base_url": f"http://localhost:{port}",
            "tokenizer": str(TINY_MODEL),
        },
        warmups=(
            warmup(
                requests=8,
                concurrency=4,
                data=RandomData(input_tokens=64, output_tokens=12),
            ),
        ),
        percentiles=("50", "99"),
    )


@dataclass(frozen=True)
class Measured:
    """What the client gave."""

    plan: Plan
    records: list[StageRecord]
    progress: ClientProgress
    exit_code: int
    headlines: list[dict[str, object]]


def measured_by(folder: Path, *, shards: int) -> Measured:
    port = free_port()
    whole = whole_plan(port, *stages())
    with (
        simulator(
            "--sim-ttft-ms", str(TTFT_MS), "--sim-tpot-ms", str(TPOT_MS), port=port
        ),
        client(folder, whole, shards=shards) as running,
    ):
        records, progress = running.pull_all()
        return Measured(
            whole, records, progress, running.process.wait(), running.headlines()
        )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured_by(tmp_path_factory.mktemp("alone"), shards=1)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured_by(tmp_path_factory.mktemp("together"), shards=2)


def test_one_record_a_stage_holds_every_request(together: Measured) -> None:
    assert together.exit_code == 0
    assert [r.stage_id for r in together.records] == [
        s.id for s in together.plan.stages
    ]
    assert [len(r.requests.ok) for r in together.records] == [
        s.requests for s in together.plan.stages
    ]
    assert all(all(r.requests.ok) for r in together.records)
    assert len(together.headlines) == len(together.records)


def test_the_traffic_is_that_of_one_process(
    alone: Measured, together: Measured
) -> None:
    for one, two in zip(alone.records, together.records, strict=True):
        assert two.prompts_digest == one.prompts_digest
        assert sorted(two.requests.input_tokens) == sorted(
            one.requests.input_tokens
        )
        assert sum(two.gaps.count) == sum(one.gaps.count)


def test_requests_arrive_when_those_of_one_process_do(
    alone: Measured, together: Measured
) -> None:
    ones, twos = (m.records[1].requests.start_us for m in (alone, together))
    late = sorted(abs(two - one) for one, two in zip(ones, twos, strict=True))
    assert late[len(late) // 2] < 10_000


def test_the_shards_begin_together(together: Measured) -> None:
    for record in together.records:
        assert record.shards is not None
        assert record.shards.count == 2
        assert (
            record.shards.start_skew_us + record.shards.clock_error_us < MAX_SKEW_US
        )


def test_users_are_never_more_than_asked_for(together: Measured) -> None:
    for record, cap in (
        (together.records[0], 6),
        (together.records[2], 5),
        (together.records[3], 1),
    ):
        columns = record.requests
        spans = list(zip(columns.start_us, columns.e2el_us, strict=True))
        # Sent, and not yet answered, when a request is sent; one that ends within the same
        # millisecond has.
        busiest = max(
            sum(s <= now < s + e - 1000 for s, e in spans)
            for now in columns.start_us
        )
        assert busiest <= cap
        assert record.scalars["max_concurrency"] == cap


def test_the_client_is_both_processes(together: Measured) -> None:
    assert [record.client.processes for record in together.records] == [2, 2, 2, 1]
    assert all(record.client.cpu_seconds > 0 for record in together.records)


def test_counters_at_both_edges_hold_the_requests_of_all(
    together: Measured,
) -> None:
    for record in together.records:
        edge = record.servers[0]
        assert edge.before is not None
        assert edge.after is not None
        assert edge.after["request_success_total"] - edge.before[
            "request_success_total"
        ] == len(record.requests.ok)


def test_figures_have_the_names_of_vllm_and_are_those_of_all_requests(
    alone: Measured, together: Measured
) -> None:
    untold = {"max_output_tokens_per_s", "rtfx"}
    for one, two in zip(alone.records, together.records, strict=True):
        assert set(two.scalars) == set(one.scalars) - untold
        assert two.scalars["completed"] == len(two.requests.ok)
        assert two.scalars["num_prompts"] == len(two.requests.ok)
        ascending = sorted(two.requests.ttft_us)
        middle = len(ascending) // 2
        median = (
            ascending[middle]
            if len(ascending) % 2
            else (ascending[middle - 1] + ascending[middle]) / 2
        )
        assert two.scalars["median_ttft_ms"] == pytest.approx(
            median / 1000, abs=1e-9
        )
        assert two.scalars["mean_e2el_ms"] == pytest.approx(
            fmean(two.requests.e2el_us) / 1000
        )
        duration = two.scalars["duration"]
        assert isinstance(duration, float)
        # From the agreed instant, a little before the first request.
        sending = (two.last_receive_unix_us - two.first_send_unix_us) / 1e6
        assert sending <= duration < sending + 0.5
        assert two.scalars["request_throughput"] == len(two.requests.ok) / duration


def test_between_stages_the_server_waits_little(together: Measured) -> None:
    first, *closed = [
        r.idle_before_us / 1e6 for r in together.records if "rate" not in r.stage_id
    ]
    # Before the first one the round trips are measured, once a run.
    assert first < ROUND_TRIPS * PAUSE_SECONDS + MAX_IDLE_SECONDS
    assert max(closed) < MAX_IDLE_SECONDS


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_shard_voids_its_stage_and_ends_the_run(
    tmp_path: Path, number: signal.Signals
) -> None:
    port = free_port()
    short = stage(
        id="short/concurrency=4/r1",
        workload="short",
        load=UsersLoad(concurrency=4),
        requests=8,
    )
    long = stage(
        id="long/concurrency=4/r1",
        workload="long",
        load=UsersLoad(concurrency=4),
        requests=2000,
    )
    with (
        simulator(
            "--sim-ttft-ms", str(TTFT_MS), "--sim-tpot-ms", str(TPOT_MS), port=port
        ),
        client(tmp_path, whole_plan(port, short, long), shards=2) as running,
    ):
        running.wait_for_stage(long.id, requests=20)
        (victim,) = other_shards(running.process.pid)
        os.kill(victim, number)
        began = time.monotonic()
        progress = running.wait_for_phase("Failed")
        took = time.monotonic() - began
        records, _ = running.pull_all()
        running.process.wait()
        if number is signal.SIGSTOP:
            os.kill(victim, signal.SIGKILL)
    assert took < LOST_SECONDS
    assert progress.failure is not None
    assert progress.failure.reason == "ShardLost"
    assert "shard 1 of 2" in progress.failure.message
    assert long.id in progress.failure.message
    assert [record.stage_id for record in records] == [short.id]
    assert running.termination_message() == progress.failure


def test_several_processes_in_each_of_two_pods_are_one_client(
    tmp_path: Path,
) -> None:
    """And one that is lost where the gate is not is told from there."""
    port = free_port()
    short = stage(
        id="short/concurrency=6/r1",
        workload="short",
        load=UsersLoad(concurrency=6),
        requests=30,
    )
    long = stage(
        id="long/concurrency=8/r1",
        workload="long",
        load=UsersLoad(concurrency=8),
        requests=4000,
    )
    with (
        simulator(
            "--sim-ttft-ms", str(TTFT_MS), "--sim-tpot-ms", str(TPOT_MS), port=port
        ),
        client_of_two_pods(
            tmp_path, whole_plan(port, short, long), shards_a_pod=2
        ) as (
            first,
            second,
        ),
    ):
        first.wait_for_stage(long.id, requests=40)
        (victim,) = other_shards(second.process.pid)
        os.kill(victim, signal.SIGKILL)
        progress = first.wait_for_phase("Failed")
        (record,), _ = first.pull_all()
        exit_codes = first.process.wait(), second.process.wait()
    assert progress.failure is not None
    assert progress.failure.reason == "ShardLost"
    assert "shard 3 of 4" in progress.failure.message
    assert 0 not in exit_codes
    assert record.stage_id == short.id
    assert len(record.requests.ok) == 30
    assert all(record.requests.ok)
    assert record.client.processes == 4
    assert record.shards is not None
    assert record.shards.count == 4
    assert record.shards.start_skew_us + record.shards.clock_error_us < MAX_SKEW_US


def other_shards(parent: int) -> list[int]:
    """Children of a client that are shards, by their command lines."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    background = [
        child
        for task in Path(f"/proc/{parent}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [
        int(c)
        for c in {*children, *background}
        if b"--shard=" in Path(f"/proc/{c}/cmdline").read_bytes()
    ]
