"""Good requests a second. The default stage has two requests in ten seconds: TTFT 20 and 30, E2EL 120 and 130, TPOT 10 ms."""

import pytest
from benchrun.measure import RequestLimits, goodput
from unit.measure.records import record, requests


@pytest.mark.parametrize(
    ("good", "limits"),
    [
        pytest.param(2, RequestLimits(), id="no limit"),
        pytest.param(1, RequestLimits(ttft_ms=20), id="the limit itself is kept"),
        pytest.param(0, RequestLimits(ttft_ms=19), id="TTFT"),
        pytest.param(1, RequestLimits(e2el_ms=120), id="E2EL"),
        pytest.param(2, RequestLimits(tpot_ms=10), id="TPOT kept"),
        pytest.param(0, RequestLimits(tpot_ms=9.9), id="TPOT not kept"),
        pytest.param(0, RequestLimits(ttft_ms=20, tpot_ms=9.9), id="every limit counts"),
    ],
)
def test_limits(good: int, limits: RequestLimits) -> None:
    assert goodput([record()], limits) == pytest.approx(good / 10)


def test_an_answer_of_one_token_has_no_time_per_token_to_keep() -> None:
    one_token = record(requests=requests(output_tokens=(1, 11)))
    assert goodput([one_token], RequestLimits(tpot_ms=1)) == pytest.approx(0.1)


def test_a_failed_request_is_not_good() -> None:
    assert goodput([record(requests=requests(ok=(1, 0)))], RequestLimits()) == pytest.approx(0.1)


def test_the_wait_in_the_clients_queue_counts_with_the_option() -> None:
    waited = record(requests=requests(queue_us=(1000, 90_000)))
    limits = RequestLimits(ttft_ms=35)
    assert goodput([waited], limits) == pytest.approx(0.2)
    assert goodput([waited], limits, since_due=True) == pytest.approx(0.1)
    assert goodput([waited], RequestLimits(e2el_ms=130), since_due=True) == pytest.approx(0.1)


def test_repeats_are_pooled() -> None:
    longer = record(scalars={"duration": 30.0})
    assert goodput([record(), longer], RequestLimits()) == pytest.approx(4 / 40)


def test_nothing_measured_has_no_goodput() -> None:
    assert goodput([], RequestLimits()) is None
