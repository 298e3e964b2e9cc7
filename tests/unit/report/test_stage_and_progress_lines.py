"""A stage, and a run that goes on, each in one line."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, Live, Progress
from benchrun.report.followed import StageLine, stage_figures, stage_line
from benchrun.report.live_view import progress_line
from benchrun.report.log_lines import Log
from unit.measure.records import record, requests
from unit.report.going_on import BEGIN, at, followed


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, ()),
        ({"requests_per_second": 0.0}, ("0 req/s",)),
        ({"requests_per_second": 7.984}, ("7.98 req/s",)),
        ({"output_tokens_per_second": 12_345.6}, ("12300 tok/s",)),
        ({"median_ttft_ms": 43.21}, ("TTFT p50 43.2 ms",)),
        ({"p99_ttft_ms": 118.4}, ("p99 118 ms",)),
        ({"median_ttft_ms": 0.04321}, ("TTFT p50 0.0432 ms",)),
        ({"failed": 0, "requests": 8}, ()),
        ({"failed": 8, "requests": 8}, ("8 of 8 failed",)),
        ({"failed": None, "requests": 8}, ()),
    ],
)
def test_figures_that_are_known_are_told_with_their_units(known: dict[str, Any], told: tuple[str, ...]) -> None:
    assert stage_figures(StageLine(0, "a/rate=1/r1", **known)) == told


def test_figures_stand_in_one_order_and_failures_last() -> None:
    line = StageLine(
        0, "a", failed=1, requests=9, p99_ttft_ms=4.0, median_ttft_ms=3.0, output_tokens_per_second=2.0,
        requests_per_second=1.0,
    )  # fmt: skip
    assert stage_figures(line) == ("1 req/s", "2 tok/s", "TTFT p50 3 ms", "p99 4 ms", "1 of 9 failed")


def test_a_line_takes_the_engines_figures_by_their_names() -> None:
    names = {"request_throughput": 1.0, "output_throughput": 2.0, "median_ttft_ms": 3.0, "p99_ttft_ms": 4.0}
    columns = requests(ok=[1, 0])
    line = stage_line(record("a/rate=1/r2", sequence=5, scalars={**names, "mean_ttft_ms": 9.0}, requests=columns))
    assert line == StageLine(
        sequence=5,
        stage="a/rate=1/r2",
        requests_per_second=1.0,
        output_tokens_per_second=2.0,
        median_ttft_ms=3.0,
        p99_ttft_ms=4.0,
        failed=1,
        requests=2,
    )


def test_what_the_engine_did_not_say_is_not_known() -> None:
    line = stage_line(record(scalars={"p99_ttft_ms": None}))
    known = (line.requests_per_second, line.output_tokens_per_second, line.median_ttft_ms, line.p99_ttft_ms)
    assert known == (None, None, None, None)


LIVE = Live(at=at(80), running=8, waiting=0, kv_cache_percent=40.04, generation_tokens_per_second=512.3)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "Pending"),
        ({"message": "no operator"}, "Pending · no operator"),
        ({"phase": "Running"}, "Running"),
        ({"phase": "Running", "message": ""}, "Running"),
        ({"phase": "Running", "progress": Progress(stages_total=4, stages_done=1, summary="1/4")}, "Running · 1/4"),
        ({"phase": "Running", "live": LIVE}, "Running · running 8, waiting 0, KV 40 %, 512 tok/s"),
        ({"phase": "Running", "live": Live(at=at(80))}, "Running · running -, waiting -, KV -, - tok/s"),
        (
            {
                "phase": "Running",
                "progress": Progress(stages_total=4, stages_done=1, summary="1/4"),
                "live": LIVE,
                "message": "measuring",
            },
            "Running · 1/4 · running 8, waiting 0, KV 40 %, 512 tok/s · measuring",
        ),
    ],
)
def test_a_run_that_goes_on_says_what_is_known_of_it(fields: dict[str, Any], line: str) -> None:
    assert progress_line(BenchmarkRunStatus(**fields)) == line


def logged(stage: StageLine, progress: Progress | None) -> str:
    run = followed(BenchmarkRunStatus(phase="Running", progress=progress, accepted_time=at(0)), stages=(stage,))
    return Log().lines(run, now=BEGIN)[0]


@pytest.mark.parametrize(
    ("line", "stage", "total"),
    [
        ("00:00  stage 1: measured", StageLine(0, None), None),
        ("00:00  stage 1: measured", StageLine(0, None), 0),
        ("00:00  stage 1/1: measured", StageLine(0, None), 1),
        ("00:00  stage 3/4 a/rate=1/r1: 2 req/s", StageLine(2, "a/rate=1/r1", requests_per_second=2.0), 4),
    ],
)
def test_a_stage_of_a_log_has_its_place_where_it_is_known(line: str, stage: StageLine, total: int | None) -> None:
    progress = Progress(stages_total=total, summary="") if total is not None else None
    assert logged(stage, progress) == line
