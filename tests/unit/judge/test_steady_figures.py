"""Figures, objectives and marks of a row are of the steady part."""

import pytest
from benchrun.api import Result
from benchrun.judge.results import results
from unit.judge.specs import spec, workload
from unit.measure.records import load_point, record, requests

USERS = load_point(axis="Concurrency", value="8")


def row(
    ttft_us: list[int], *, limit_ms: int = 100, percentile: str = "99"
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
    (found,) = results([USERS], [measured], [], spec=asked).results
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
