"""Latencies with the wait in the client."""

from benchrun.measure import QUEUED_LATENCIES, pools_of
from unit.measure.records import record, requests

WAITED = record(requests=requests(queue_us=(0, 50_000)))


def test_since_a_request_was_due() -> None:
    means = {name: pool.mean() for name, pool in pools_of([WAITED], QUEUED_LATENCIES).items()}
    assert means == {
        "client_queue_time": 25_000,
        "ttft_including_client_queue": 50_000,
        "e2el_including_client_queue": 150_000,
    }


def test_failed_requests_are_left_out() -> None:
    failed = record(requests=requests(queue_us=(0, 50_000), ok=(1, 0)))
    assert {pool.count for pool in pools_of([failed], QUEUED_LATENCIES).values()} == {1}


def test_repeats_are_pooled() -> None:
    assert {pool.count for pool in pools_of([WAITED, record()], QUEUED_LATENCIES).values()} == {4}
