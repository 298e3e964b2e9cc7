"""Figures, objectives and marks of a row are of the steady part."""

from collections.abc import Sequence
from typing import Any

import pytest
from benchrun.api import LoadPoint, Result, ServerStatus
from benchrun.judge.results import results
from benchrun_client.contract import UserStart, UserStartMode
from unit.judge.specs import spec, workload
from unit.measure.records import load_point, record, requests

USERS = load_point(axis="Concurrency", value="8")


def row(
    ttft_us: list[int],
    *,
    limit_ms: int = 100,
    percentile: str = "99",
    servers: Sequence[ServerStatus] = (),
) -> Result:
    """Eight users who send four requests a second together, each answered after 100 ms more than
    its TTFT."""
    count = len(ttft_us)
    columns = requests(
        start_us=[i if i < 8 else 250_000 * (i - 7) for i in range(count)],
        ttft_us=ttft_us,
        e2el_us=[each + 100_000 for each in ttft_us],
        output_tokens=[11] * count,
    )
    measured = record(
        USERS.stage_ids[0], requests=columns, scalars={"duration": count / 4}
    )
    asked = spec(
        workloads=[workload(load={"concurrencies": [8]})],
        objectives=[
            {
                "metric": "TTFT",
                "percentile": percentile,
                "maxMilliseconds": limit_ms,
            }
        ],
    )
    (found,) = results([USERS], [measured], [], spec=asked, servers=servers).results
    return found


FIRST_WAVE = [900_000] * 8 + [20_000 + i * 619 % 997 for i in range(792)]


def test_a_slow_first_wave_does_not_miss_an_objective() -> None:
    """Eight of 800 requests, which are the slowest percent: the p99 of the whole stage would miss."""
    found = row(FIRST_WAVE)
    (objective,) = found.objectives
    assert objective.outcome == "Met"
    assert objective.measured_milliseconds == pytest.approx(21, abs=0.1)


def test_figures_are_of_the_steady_part_and_metrics_of_the_whole_stage() -> None:
    found = row(FIRST_WAVE)
    assert found.metrics["mean_ttft_ms"] == pytest.approx(29.3, abs=0.1)
    assert found.figure("mean_ttft_ms") == found.steady["mean_ttft_ms"]
    assert found.figure("mean_ttft_ms") == pytest.approx(20.5, abs=0.1)
    low, high = found.intervals["p99_ttft_ms"]
    assert low <= 21 <= high < 25
    assert 750 < (found.steady["sent"] or 0) < 800


def test_a_limit_near_the_percentile_tells_what_would_decide() -> None:
    """In one stretch of time a limit within a factor of 1.5 is not decided: three repeats are
    asked for."""
    found = row(FIRST_WAVE, limit_ms=25, percentile="50")
    (objective,) = found.objectives
    assert objective.outcome == "Inconclusive"
    assert objective.price is not None
    sent = found.metrics["completed"] or 0
    assert (objective.price.repeats, objective.price.requests) == (3, 3 * sent)
    minutes = (found.metrics["duration"] or 0) / 60
    assert objective.price.minutes == pytest.approx(3 * minutes, rel=1e-3)
    assert objective.price.gpu_seconds is None  # No server of these is known.
    (decided,) = row(FIRST_WAVE).objectives
    assert decided.price is None


def test_gpu_seconds_are_those_that_the_servers_held() -> None:
    server = ServerStatus.model_validate(
        {"role": "server", "engine": "VLLM", "gpus": 4, "gpu": "H100"}
    )
    found = row(FIRST_WAVE, limit_ms=25, percentile="50", servers=[server])
    price = found.objectives[0].price
    assert price is not None
    assert price.gpu_seconds == pytest.approx(
        4 * 60 * (price.minutes or 0), rel=1e-3
    )


def test_an_uncertain_percentile_has_its_price_in_the_row() -> None:
    found = row([20_000 + i * 619 % 997 for i in range(400)])
    assert "p99_ttft_ms" in found.uncertain
    price = found.prices["p99_ttft_ms"]
    sent = found.steady["sent"] or 0
    # Five values beyond a p99 are 500 requests of the steady part.
    assert price.requests == 400 + (500 - sent)
    assert found.prices.keys() <= set(found.uncertain)


# ---- from which instant latencies count

RATE = load_point(value="4", repeats=3)
CAPPED = load_point(value="4", repeats=3, max_concurrency=50)
MANY_USERS = load_point(axis="Concurrency", value="8", repeats=3)
TRACE = load_point(axis="TraceSpeed", value="1", repeats=3)
FROM_DUE = {"ttft": 320.0, "ttfrt": 320.0, "ttfat": 470.0, "e2el": 620.0}
"""Latencies in milliseconds of `late_row`; from the send they are 20 ms shorter."""


def late_row(
    planned: LoadPoint,
    load: dict[str, Any],
    *,
    late_us: int = 20_000,
    ttft_us: Sequence[int] = (300_000,) * 400,
    e2els_us: Sequence[int] = (600_000,) * 3,
    **of_workload: Any,
) -> Result:
    """Four requests a second, sent so late; each thinks from 300 to 450 ms.

    `e2els_us` is when the answers of each repeat end.
    """
    measured = [
        record(
            stage_id,
            sequence=place,
            load=planned.load,
            requests=requests(
                start_us=[250_000 * i for i in range(400)],
                queue_us=[late_us] * 400,
                ttft_us=ttft_us,
                e2el_us=[e2el_us] * 400,
                output_tokens=[11] * 400,
                reasoning_us=[300_000] * 400,
                answer_us=[450_000] * 400,
            ),
            scalars={"duration": 100.0},
        )
        for place, (stage_id, e2el_us) in enumerate(
            zip(planned.stage_ids, e2els_us, strict=True)
        )
    ]
    asked = spec(
        workloads=[workload(load=load, **of_workload)],
        repeats=len(measured),
        objectives=[{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 310}],
    )
    (found,) = results([planned], measured, [], spec=asked).results
    return found


def test_an_open_loop_counts_from_when_requests_were_due() -> None:
    late = late_row(RATE, {"requestRates": ["4"]})
    for latency, milliseconds in FROM_DUE.items():
        assert late.figure(f"mean_{latency}_ms") == milliseconds
        assert late.steady[f"p99_{latency}_ms"] == milliseconds
        assert late.intervals[f"p99_{latency}_ms"] == [milliseconds] * 2
        # vLLM's own figures of the whole stage are from the send.
        assert late.metrics[f"mean_{latency}_ms"] == milliseconds - 20
    assert late.steady["mean_tpot_ms"] == late.metrics["mean_tpot_ms"] == 30.0
    assert late.steady["request_goodput"] == 0.0
    assert late.metrics["request_goodput"] == 4.0


@pytest.mark.parametrize(
    ("late_us", "outcome", "measured"),
    [(0, "Met", 300.0), (20_000, "Missed", 320.0)],
)
def test_an_objective_counts_from_when_requests_were_due(
    late_us: int, outcome: str, measured: float
) -> None:
    (objective,) = late_row(
        RATE, {"requestRates": ["4"]}, late_us=late_us
    ).objectives
    assert (objective.outcome, objective.measured_milliseconds) == (
        outcome,
        measured,
    )


@pytest.mark.parametrize(
    ("planned", "load"),
    [
        (MANY_USERS, {"concurrencies": [8]}),
        (CAPPED, {"requestRates": ["4"], "maxConcurrency": 50}),
    ],
    ids=["closed loop", "rate with a cap"],
)
def test_other_loads_count_from_the_send(
    planned: LoadPoint, load: dict[str, Any]
) -> None:
    late = late_row(planned, load)
    for latency, milliseconds in FROM_DUE.items():
        assert late.steady[f"mean_{latency}_ms"] == milliseconds - 20
        assert late.metrics[f"mean_{latency}_ms"] == milliseconds - 20
    queued = late.steady.get("mean_ttft_including_client_queue_ms")
    assert queued == (320.0 if planned is CAPPED else None)


def test_a_trace_counts_from_its_recorded_instants() -> None:
    """It has no steady part: its other figures are of the whole stage, as vLLM's are."""
    file = {"pvc": {"claimName": "data", "path": "trace.jsonl"}}
    late = late_row(
        TRACE,
        {"traceSpeeds": ["1"]},
        dataset={"timedTrace": {"file": file, "unit": "Seconds"}},
    )
    for latency, milliseconds in FROM_DUE.items():
        assert late.figure(f"p99_{latency}_ms") == milliseconds
        assert late.intervals[f"p99_{latency}_ms"] == [milliseconds] * 2
        assert late.metrics[f"p99_{latency}_ms"] == milliseconds - 20
    assert (late.has_plateau, late.figure("request_throughput")) == (False, 4.0)
    assert late.figure("request_goodput") == 0.0
    assert late.objectives[0].outcome == "Missed"


# ---- a row without a steady part

TOO_LONG_US = 20_000_000
"""An answer after which nothing is steady: the first and the last ones take most of a stage."""
RISING = [300_000] * 200 + [400_000] * 200
"""TTFT of the requests of a stage."""


def test_a_rate_without_a_steady_part_shows_what_its_objectives_judge() -> None:
    late = late_row(RATE, {"requestRates": ["4"]}, e2els_us=[TOO_LONG_US] * 3)
    assert not late.is_steady
    assert late.objectives[0].measured_milliseconds == 320.0
    assert late.figure("median_ttft_ms") == 320.0
    assert late.figure("p99_e2el_ms") == TOO_LONG_US / 1000 + 20
    assert late.metrics["median_ttft_ms"] == 300.0
    assert (late.figure("request_goodput"), late.metrics["request_goodput"]) == (
        0.0,
        4.0,
    )
    assert late.intervals == {}


@pytest.mark.parametrize(
    ("planned", "load", "e2el_us", "median_ms"),
    [
        (RATE, {"requestRates": ["4"]}, 600_000, 420.0),
        (MANY_USERS, {"concurrencies": [8]}, 5_000_000, 300.0),
    ],
    ids=["rate", "users"],
)
def test_repeats_of_which_one_has_no_steady_part_show_what_their_objectives_judge(
    planned: LoadPoint, load: dict[str, Any], e2el_us: int, median_ms: float
) -> None:
    """Half of the requests of whole stages are slow. What is left out of the others is mostly the
    quick beginning under a rate, and mostly the slow end of long answers to users."""
    found = late_row(
        planned, load, ttft_us=RISING, e2els_us=[e2el_us, e2el_us, TOO_LONG_US]
    )
    assert not found.is_steady
    assert found.objectives[0].measured_milliseconds == median_ms
    assert found.figure("median_ttft_ms") == median_ms
    assert found.metrics["median_ttft_ms"] == 350.0


def test_users_without_a_steady_part_have_vllms_figures() -> None:
    found = late_row(MANY_USERS, {"concurrencies": [8]}, e2els_us=[TOO_LONG_US] * 3)
    assert not any(key.endswith("_ms") for key in found.steady)
    assert found.objectives[0].measured_milliseconds == 300.0
    assert found.figure("median_ttft_ms") == 300.0


def test_the_scatter_of_repeats_is_of_what_counts() -> None:
    """Whole stages are alike in TTFT. What counts of the first two is slower by 1.3 %."""
    found = late_row(
        RATE,
        {"requestRates": ["4"]},
        ttft_us=RISING,
        e2els_us=[600_000, 600_000, TOO_LONG_US],
    )
    assert found.repeat_cv_percent["mean_ttft_ms"] == pytest.approx(0.76, abs=0.05)


# ---- how users began


def began(*modes: UserStartMode | None) -> Result:
    """A row of users, with how they began in each repeat; None: an older client does not say."""
    planned = load_point(axis="Concurrency", value="8", repeats=len(modes))
    measured = [
        record(
            stage_id,
            sequence=place,
            requests=requests(),
            user_start=mode and UserStart(mode=mode, seconds=1.0),
        )
        for place, (stage_id, mode) in enumerate(
            zip(planned.stage_ids, modes, strict=True)
        )
    ]
    asked = spec(workloads=[workload(load={"concurrencies": [8]})])
    (found,) = results([planned], measured, [], spec=asked).results
    return found


def test_a_row_tells_how_its_users_began() -> None:
    rows = [
        began("Spread", "Spread"),
        began("Spread", "Together"),
        began("Together"),
        began(None),
    ]
    assert [each.user_start for each in rows] == [
        "Spread",
        "Together",
        "Together",
        None,
    ]
