"""Which figures the benchmark of several client processes lets pass."""

from dataclasses import replace

import pytest
from shards import Figures

KEPT = Figures(
    cores=4,
    processes=2,
    saturated_at=300,
    asked_rate=480,
    achieved_rate=479.1,
    ttft_error_percent=3.2,
    alone_ttft_error_percent=14.0,
    called_saturated=None,
    start_skew_us=700,
    clock_error_us=90,
    cores_a_process=0.5,
    failed=0,
)


def test_good_figures_keep_every_limit() -> None:
    assert list(KEPT.beyond_limits()) == []
    assert list(replace(KEPT, called_saturated="Suspect").beyond_limits()) == []
    assert list(replace(KEPT, ttft_error_percent=13.9).beyond_limits()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (replace(KEPT, saturated_at=0), "no rate was too much"),
        (
            replace(KEPT, ttft_error_percent=14.1),
            "off by 14.1 %, that of one process by 14.0 %",
        ),
        (replace(KEPT, ttft_error_percent=-14.1), "off by -14.1 %"),
        (replace(KEPT, ttft_error_percent=None), "off by None %"),
        (replace(KEPT, achieved_rate=475.0), "475.0 of 480 requests/s were sent"),
        (
            replace(KEPT, called_saturated="Invalid"),
            "2 processes are called saturated at 480",
        ),
        (replace(KEPT, start_skew_us=19_950), "19950 us apart"),
        (replace(KEPT, failed=1), "1 requests failed"),
    ],
)
def test_each_limit_is_reported_by_itself(changed: Figures, message: str) -> None:
    (line,) = changed.beyond_limits()
    assert message in line
