"""How repeats scatter."""

from __future__ import annotations

import math

import pytest
from benchrun.measure.repeats import repeat_cv_percent
from benchrun_client.contract import StageRecord
from unit.measure.records import record, requests

FIGURES = {
    *("request_throughput", "output_throughput", "total_token_throughput"),
    *(f"mean_{latency}_ms" for latency in ("ttft", "tpot", "itl", "e2el")),
}


def stage(ttft_us: int, seconds: float = 10.0, tokens: int = 11) -> StageRecord:
    columns = requests(ttft_us=[ttft_us] * 2, e2el_us=[200_000] * 2, output_tokens=[tokens] * 2)
    return record(requests=columns, scalars={"duration": seconds})


def test_the_sample_formula() -> None:
    found = repeat_cv_percent([stage(90_000), stage(100_000), stage(110_000)])
    assert found["mean_ttft_ms"] == pytest.approx(10.0)
    assert found["mean_e2el_ms"] == 0.0


def test_throughput() -> None:
    found = repeat_cv_percent([stage(1, seconds=10.0), stage(1, seconds=20.0)])
    expected = 100 * (0.05 * math.sqrt(2)) / 0.15
    assert found["request_throughput"] == found["output_throughput"] == pytest.approx(expected, rel=1e-4)


def test_every_figure() -> None:
    assert set(repeat_cv_percent([record(), record()])) == FIGURES


def test_one_repeat_says_nothing() -> None:
    assert repeat_cv_percent([record()]) == {}
    assert repeat_cv_percent([]) == {}


def test_a_figure_that_repeats_do_not_have_is_left_out() -> None:
    assert set(repeat_cv_percent([stage(1, tokens=1), stage(2, tokens=1)])) == FIGURES - {"mean_tpot_ms", "mean_itl_ms"}
