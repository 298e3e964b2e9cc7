"""The metrics text: as Prometheus reads it, and true."""

import time
from collections.abc import Callable
from typing import Any, cast

from benchrun_client.load.client_cost import LoopWatch
from benchrun_client.proxy.metrics import OUTCOMES, ProxyMetrics
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from unit.client.proxy.between import Server, between, prefilling, saying


def families(metrics: ProxyMetrics) -> dict[str, Metric]:
    text = metrics.exposition(in_flight=3, queued=4)
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_prometheus_reads_every_family() -> None:
    found = families(ProxyMetrics())
    assert {name: family.type for name, family in found.items()} == {
        "benchrun_proxy_requests": "counter",
        "benchrun_proxy_in_flight": "gauge",
        "benchrun_proxy_queued": "gauge",
        "benchrun_proxy_prefill_seconds": "histogram",
        "benchrun_proxy_queue_seconds": "histogram",
        "benchrun_proxy_added_seconds": "histogram",
        "benchrun_proxy_time_to_first_token_seconds": "histogram",
        "benchrun_proxy_loop_lag_seconds": "histogram",
        "process_cpu_seconds": "counter",
        "process_start_time_seconds": "gauge",
    }
    assert [
        sample.labels["outcome"]
        for sample in found["benchrun_proxy_requests"].samples
    ] == list(OUTCOMES)
    assert [
        found[f"benchrun_proxy_{name}"].samples[0].value
        for name in ("in_flight", "queued")
    ] == [3, 4]


def test_a_histogram_counts_upwards() -> None:
    metrics = ProxyMetrics()
    for seconds in (0.00025, 0.0004, 0.002, 7.0):
        metrics.added.observe(seconds)
    samples = families(metrics)["benchrun_proxy_added_seconds"].samples
    buckets = {
        sample.labels["le"]: sample.value
        for sample in samples
        if "le" in sample.labels
    }
    assert (
        buckets["0.00025"],
        buckets["0.0005"],
        buckets["0.0015"],
        buckets["0.002"],
    ) == (
        1,
        2,
        2,
        3,
    )
    assert (buckets["0.5"], buckets["+Inf"]) == (3, 4)
    assert list(buckets.values()) == sorted(buckets.values())
    others = {
        sample.name.rpartition("_")[2]: sample.value
        for sample in samples
        if "le" not in sample.labels
    }
    assert others["count"] == 4
    assert abs(others["sum"] - 7.00265) < 1e-9


class HeldUpLoop:
    """A loop with a clock of its own, which runs what is due only when it is let go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due = list[Callable[[], None]]()

    def time(self) -> float:
        return self.now

    def call_at(self, _: float, callback: Callable[[], None]) -> None:
        self.due.append(callback)


def test_a_loop_that_is_held_up_is_late_for_every_tick() -> None:
    metrics = ProxyMetrics()
    loop = HeldUpLoop()
    LoopWatch(cast(Any, loop), note=metrics.lag.observe)
    loop.now = 0.51
    loop.due[0]()
    samples = families(metrics)["benchrun_proxy_loop_lag_seconds"].samples
    late = {
        sample.labels["le"]: sample.value
        for sample in samples
        if "le" in sample.labels
    }
    # Of 25 ticks within half a second 15 are late by more than 0.2 s.
    assert (late["+Inf"], late["+Inf"] - late["0.2"]) == (25, 15)


async def test_start_and_cpu_time_are_those_of_the_process() -> None:
    before = time.time()
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        first = await proxy.metrics()
        second = await proxy.metrics()
    assert (
        before
        <= first["process_start_time_seconds"]
        == second["process_start_time_seconds"]
        <= time.time()
    )
    assert (
        0 < first["process_cpu_seconds_total"] < second["process_cpu_seconds_total"]
    )
