"""Servers that are wrong, slow or die: told early, measured as far as it goes, and never waited for
in vain."""

import signal
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import Plan, RateLoad, Stage
from benchrun_client.contract.datasets import RandomData
from client.processes import TINY_MODEL, client, free_port, simulator
from unit.client.plans import plan, stage, warmup


def short_stage(repeat: int, **changes: Any) -> Stage:
    return stage(
        id=f"chat/concurrency=2/r{repeat}", repeat=repeat, seed=repeat, **changes
    )


def plan_for(
    port: int, *stages: Stage, model: str = "tiny", **changes: Any
) -> Plan:
    target = {
        "base_url": f"http://127.0.0.1:{port}",
        "tokenizer": str(TINY_MODEL),
        "served_model": model,
    }
    return plan(*stages, target=target, **changes)


def test_a_model_that_is_not_served_is_told_before_the_engine_is_even_imported(
    tmp_path: Path,
) -> None:
    port = free_port()
    with (
        simulator(port=port),
        client(tmp_path, plan_for(port, model="huge")) as running,
    ):
        records, progress = running.pull_all()
        assert running.process.wait() == 2
        assert records == []
        assert progress.failure is not None
        assert progress.failure == running.termination_message()
        assert progress.failure.reason == "ModelNotServed"
        assert "It serves: tiny. Requested: huge." in progress.failure.message


def test_a_prompt_longer_than_the_server_takes_is_refused_with_both_numbers(
    tmp_path: Path,
) -> None:
    port = free_port()
    long = short_stage(1, data=RandomData(input_tokens=4000, output_tokens=97))
    with simulator(port=port), client(tmp_path, plan_for(port, long)) as running:
        _, progress = running.pull_all()
        assert running.process.wait() == 2
        assert progress.failure is not None
        assert progress.failure.reason == "PromptTooLong"
        assert (
            "4097 tokens do not fit into the 4096 tokens of the server"
            in progress.failure.message
        )


def test_a_prompt_longer_than_the_model_takes_is_refused_without_any_server(
    tmp_path: Path,
) -> None:
    long = short_stage(1, data=RandomData(input_tokens=8000, output_tokens=193))
    with client(tmp_path, plan_for(free_port(), long)) as running:
        _, progress = running.pull_all()
        assert running.process.wait() == 2
        assert progress.failure is not None
        assert (
            "8193 tokens do not fit into the 8192 tokens of the model"
            in progress.failure.message
        )


def test_a_server_that_never_comes_is_given_up_at_the_deadline(
    tmp_path: Path,
) -> None:
    with client(
        tmp_path, plan_for(free_port(), health_deadline_seconds=1)
    ) as running:
        _, progress = running.pull_all()
        assert running.process.wait() == 1
        assert progress.failure is not None
        assert progress.failure.reason == "EndpointNotReady"


def test_a_server_that_dies_leaves_records_of_what_failed_and_why(
    tmp_path: Path,
) -> None:
    port = free_port()
    measured = plan_for(port, short_stage(1), short_stage(2), short_stage(3))
    # The canary is one, the first stage four: the server dies within the second stage.
    with (
        simulator("--sim-die-after-requests", "7", port=port),
        client(tmp_path, measured) as running,
    ):
        records, _ = running.pull_all()
        assert running.process.wait() == 0
    assert records[0].requests.ok.count(1) == 4
    assert records[1].requests.ok.count(1) < 4
    assert sum(records[1].errors.values()) == 4 - records[1].requests.ok.count(1)
    assert (records[2].requests.ok.count(1), sum(records[2].errors.values())) == (
        0,
        4,
    )
    assert records[2].diagnostic is not None
    assert "Connect" in records[2].diagnostic
    assert (records[1].servers[0].after, records[2].servers[0].before) == (
        None,
        None,
    )
    assert all("Traceback" not in error for r in records for error in r.errors)


def test_a_warmup_is_cut_short_and_leaves_nothing_running(tmp_path: Path) -> None:
    port = free_port()
    slow = warmup(
        data=RandomData(input_tokens=32, output_tokens=400),
        requests=4,
        max_seconds=1,
    )
    measured = plan_for(port, short_stage(1), warmups=(slow,))
    with (
        simulator("--sim-ttft-ms", "50", "--sim-tpot-ms", "50", port=port),
        client(tmp_path, measured) as running,
    ):
        records, progress = running.pull_all()
        assert running.process.wait() == 0
    assert progress.warmup_us is not None
    assert 900_000 < progress.warmup_us < 5_000_000
    cut = records[0].warmup
    assert cut is not None
    assert (cut.requests, cut.answered, cut.failed) == (4, 0, 0)
    assert 900_000 < cut.took_us <= progress.warmup_us
    assert records[0].requests.ok.count(1) == 4
    edge = records[0].servers[0]
    assert edge.before is not None
    assert edge.after is not None
    assert (
        edge.after["request_success_total"] - edge.before["request_success_total"]
        == 4
    )


@pytest.mark.parametrize("metrics", ["garbage", "endless"])
def test_a_useless_metrics_page_costs_the_edges_and_nothing_else(
    tmp_path: Path, metrics: str
) -> None:
    port = free_port()
    measured = plan_for(port, short_stage(1), short_stage(2))
    with (
        simulator("--sim-metrics", metrics, port=port),
        client(tmp_path, measured) as running,
    ):
        records, _ = running.pull_all()
        assert running.process.wait() == 0
    assert [r.requests.ok.count(1) for r in records] == [4, 4]
    assert [(e.before, e.after) for r in records for e in r.servers] == [
        (None, None)
    ] * 2


def test_a_signal_ends_the_client_at_once_while_it_measures(tmp_path: Path) -> None:
    port = free_port()
    endless = short_stage(1, requests=1000, load=RateLoad(requests_per_second="1"))
    with simulator(port=port), client(tmp_path, plan_for(port, endless)) as running:
        running.wait_for_phase("Measuring")
        running.process.send_signal(signal.SIGTERM)
        # The stage would go on for a quarter of an hour.
        assert running.process.wait(timeout=30) == 128 + signal.SIGTERM
