"""What a screen shows of a run that goes on."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus
from benchrun.report.live_view import NO_OPERATOR, LiveView, live_view
from benchrun.report.watch_state import MAX_SAMPLES, FollowedRun, StageLine, stage_line, updated_run
from unit.golden_messages import golden
from unit.measure.records import record
from unit.report.going_on import BEGIN, at, ended, followed, live, run_body, running


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def view(run: FollowedRun, seconds: float = 100) -> LiveView:
    return live_view(run, now=after(seconds))


def test_the_bar_and_what_is_left() -> None:
    shown = view(followed())
    assert (shown.done, shown.total, shown.stage) == (1, 4, "chat/rate=8/r1")
    golden(shown.elapsed, shown.left)


def test_a_search_may_end_sooner() -> None:
    golden(view(followed(running(stage="chat/search-02/r1"))).left)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(running(done=0), id="no stage yet"),
        pytest.param(running(start_time=None), id="not begun"),
        pytest.param(running(done=4, stage=None), id="all done"),
        pytest.param(BenchmarkRunStatus(), id="nobody looked"),
    ],
)
def test_the_remaining_time_is_unknown(status: BenchmarkRunStatus) -> None:
    assert view(followed(status)).left is None


def test_gauges_show_every_sample_once() -> None:
    run = followed(running(live=live(75, running=4, waiting=16)))
    for seconds, running_now in ((75, 4), (80, 8), (80, 8), (85, 6)):
        status = running(live=live(seconds, running=running_now, waiting=0 if seconds > 75 else 16))
        run = updated_run(run, run_body(status))
    gauges = {gauge.label: gauge for gauge in view(run).gauges}
    assert (gauges["running"].values, gauges["waiting"].values) == ((4, 8, 6), (16, 0, 0))
    assert gauges["running"].top is None
    assert (gauges["KV cache"].now, gauges["KV cache"].top, gauges["output"].now) == ("40 %", 100, "500 tok/s")


def test_without_a_sample_there_is_no_gauge() -> None:
    assert view(followed(running(live=None))).gauges == ()
    assert view(followed(ended(), samples=(live(),))).gauges == ()


def test_a_figure_that_was_not_read_is_no_zero() -> None:
    gauges = {g.label: g for g in view(followed(running(live=live(kv_cache_percent=None)))).gauges}
    assert (gauges["KV cache"].values, gauges["KV cache"].now) == ((None,), "-")


def test_samples_are_bounded() -> None:
    run = followed()
    for second in range(MAX_SAMPLES + 10):
        run = updated_run(run, run_body(running(live=live(100 + second))))
    assert len(run.samples) == MAX_SAMPLES
    assert run.samples[-1].at == at(100 + MAX_SAMPLES + 9)


def test_a_run_that_no_operator_looks_at_says_what_to_look_for() -> None:
    run = updated_run(None, {**run_body(BenchmarkRunStatus()), "status": {"observedGeneration": -1}})
    assert view(run, 14).trouble is None
    assert view(run, 16).trouble == NO_OPERATOR
    assert view(updated_run(run, run_body(running())), 16).trouble is None


def test_trouble_is_over_when_something_is_heard() -> None:
    run = followed(trouble="the cluster does not answer")
    assert view(updated_run(run, run_body(running()))).trouble is None
    golden(view(run).trouble)


def test_stages_are_kept_in_order_and_once() -> None:
    run = updated_run(followed(), run_body(running(done=2)), (StageLine(1, "b"), StageLine(0, "a")))
    run = updated_run(run, run_body(running(done=3)), (StageLine(2, "c"), StageLine(1, "b again")))
    assert [line.stage for line in view(run).stages] == ["a", "b again", "c"]


def test_a_status_of_another_version_is_rejected() -> None:
    with pytest.raises(ValueError, match="stagesTotal"):
        updated_run(None, {**run_body(running()), "status": {"progress": {"stagesDone": 1}}})


SCALARS: dict[str, Any] = {
    "request_throughput": 7.984,
    "output_throughput": 812.34,
    "median_ttft_ms": 43.21,
    "p99_ttft_ms": 118.4,
}


def test_a_stage_in_a_line() -> None:
    line = stage_line(record("chat/rate=8/r1", sequence=3, scalars=SCALARS))
    assert (line.sequence, line.stage) == (3, "chat/rate=8/r1")
    assert line.figures == ("7.98 req/s", "812 tok/s", "TTFT p50 43.2 ms", "p99 118 ms")


def test_what_a_record_lacks_is_left_out_and_failures_are_reported() -> None:
    whole = record("chat/rate=8/r1", scalars={"request_throughput": 4.0})
    count = len(whole.requests.ok)
    requests = whole.requests.model_copy(update={"ok": (0, 0, *[1] * (count - 2))})
    assert stage_line(whole.model_copy(update={"requests": requests})).figures == ("4 req/s", f"2 of {count} failed")
