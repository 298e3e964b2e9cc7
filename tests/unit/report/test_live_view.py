"""The way of a run and its screen at their edges: parts that nobody wrote down, scales, and what
may still come."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, Condition
from benchrun.report.live_view import (
    NO_OPERATOR,
    SILENT_SECONDS,
    LiveView,
    Log,
    live_view,
    progress_line,
    seconds_since_begin,
)
from benchrun.report.run_summary import steps
from benchrun.report.tables import BARS, GAP, sparkline
from benchrun.report.watch_state import (
    MAX_SAMPLES,
    MAX_STAGES,
    FollowedRun,
    StageLine,
    stage_line,
    updated_run,
)
from hypothesis import given, strategies as st
from unit.golden_messages import golden
from unit.measure.records import record
from unit.report.going_on import BEGIN, at, ended, followed, live, run_body, running


def timed_steps(
    status: BenchmarkRunStatus, after: float = 100
) -> list[tuple[str, str, float | None]]:
    return [
        (s.name, s.state, s.seconds)
        for s in steps(status, now=BEGIN + timedelta(seconds=after))
    ]


@pytest.mark.parametrize("condition", ["False", "Unknown"])
def test_a_client_that_is_not_ready_is_under_way(condition: str) -> None:
    not_yet = (
        Condition(
            type="ClientReady",
            status=condition,
            reason="x",
            last_transition_time=at(10),
        ),
    )
    early = running(
        conditions=not_yet,
        scheduled_time=None,
        server_ready_time=None,
        start_time=None,
    )
    assert timed_steps(early, 7)[:2] == [
        ("client", "UnderWay", 7),
        ("node", "ToCome", None),
    ]


def test_while_a_node_is_sought_it_is_a_part_of_the_way() -> None:
    seeking = running(scheduled_time=None, server_ready_time=None, start_time=None)
    assert timed_steps(seeking, 30)[:3] == [
        ("client", "Done", 10),
        ("node", "UnderWay", 20),
        ("server", "ToCome", None),
    ]


def test_a_run_that_was_not_accepted_is_under_way_nowhere() -> None:
    assert {state for _, state, _ in timed_steps(running(accepted_time=None))} == {
        "Done",
        "UnderWay",
    }
    assert timed_steps(BenchmarkRunStatus(phase="Pending"))[0] == (
        "client",
        "ToCome",
        None,
    )


def test_parts_without_an_instant_before_one_with_it_are_done_but_not_timed() -> (
    None
):
    blurred = running(conditions=(), server_ready_time=None, scheduled_time=at(12))
    assert timed_steps(blurred) == [
        ("client", "Done", None),
        ("node", "Done", None),
        ("server", "Done", None),
        ("warm-up", "Done", None),
        ("stages", "UnderWay", 30),
    ]


# ---- the screen
# ------------------------------------------------------------------------------------------------------


def left(run: FollowedRun, after: float = 100) -> str | None:
    return live_view(run, now=BEGIN + timedelta(seconds=after)).left


@pytest.mark.parametrize(
    ("done", "total", "after", "words"),
    [
        (
            1,
            2,
            100,
            "about 10 s left",
        ),  # 30 s for one and a half: half a stage to come
        (
            2,
            4,
            120,
            "about 30 s left",
        ),  # 50 s for two and a half: one and a half to come
        (3, 4, 140, "about 10 s left"),
        (1, 4, 60, "about 0 s left"),  # clocks differ
        (1, 1, 100, None),
        (2, 1, 100, None),
    ],
)
def test_stages_are_taken_to_last_equally_long(
    done: int, total: int, after: float, words: str | None
) -> None:
    assert left(followed(running(done=done, total=total)), after) == words


@pytest.mark.parametrize("stage", ["chat/search-02/r1", None])
def test_a_search_that_was_seen_has_the_most_there_can_be(
    stage: str | None,
) -> None:
    run = followed(
        running(stage=stage),
        stages=(StageLine(0, "chat/search-01/r1"), StageLine(1, None)),
    )
    assert left(run) == "at most 50 s left"


def test_a_workload_called_search_is_no_search() -> None:
    assert (
        left(followed(running(stage="search-engine/rate=1/r1")))
        == "about 50 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(SILENT_SECONDS - 1, None), (SILENT_SECONDS, NO_OPERATOR)],
)
def test_a_silent_client_is_reported(seconds: float, message: str | None) -> None:
    run = updated_run(
        None,
        {**run_body(BenchmarkRunStatus()), "status": {"observedGeneration": -1}},
    )
    assert live_view(run, now=BEGIN + timedelta(seconds=seconds)).trouble == message


@pytest.mark.parametrize(
    "status",
    [{"observedGeneration": 0}, {"phase": "Pending", "observedGeneration": -1}],
)
def test_an_operator_that_has_looked_is_not_missed(
    status: dict[str, object],
) -> None:
    run = updated_run(None, {**run_body(BenchmarkRunStatus()), "status": status})
    assert live_view(run, now=BEGIN + timedelta(hours=1)).trouble is None


@pytest.mark.parametrize(
    ("status", "created", "after", "seconds"),
    [
        (running(), None, 100, 100),
        (running(accepted_time=None), BEGIN + timedelta(seconds=40), 100, 60),
        (running(accepted_time=None), None, 100, 0),
        (ended(), None, 900, 200),
        (running(), None, -5, 0),
    ],
)
def test_time_runs_from_acceptance_to_the_end(
    status: BenchmarkRunStatus, created: object, after: float, seconds: float
) -> None:
    run = followed(status, created_at=created)
    assert seconds_since_begin(run, now=BEGIN + timedelta(seconds=after)) == seconds


def test_stages_are_bounded_and_the_latest_stay() -> None:
    many = [StageLine(n, f"s{n}") for n in range(MAX_STAGES + 5)]
    run = updated_run(followed(), run_body(running()), many)
    assert [run.stages[0].sequence, run.stages[-1].sequence, len(run.stages)] == [
        5,
        MAX_STAGES + 4,
        MAX_STAGES,
    ]


def test_samples_of_the_same_instant_are_equal() -> None:
    run = updated_run(
        followed(running(live=live(80, running=1))),
        run_body(running(live=live(80, running=9))),
    )
    assert [each.running for each in run.samples] == [1]


def test_a_run_is_known_by_its_name() -> None:
    run = updated_run(None, run_body(running(), name="chat"))
    assert (run.name, run.created_at, len(run.samples)) == ("chat", BEGIN, 1)


def test_a_run_that_reports_nothing_shows_nothing() -> None:
    shown = live_view(followed(BenchmarkRunStatus(phase="Preparing")), now=BEGIN)
    assert (
        shown.phase,
        shown.message,
        shown.done,
        shown.total,
        shown.stage,
        shown.gauges,
    ) == (
        "Preparing",
        "",
        0,
        0,
        None,
        (),
    )


# ---- bars
# ------------------------------------------------------------------------------------------------------------

VALUES = st.lists(st.none() | st.floats(-1e9, 1e9, allow_nan=False), max_size=50)


@given(VALUES, st.integers(0, 40), st.none() | st.floats(0, 1e9))
def test_a_row_of_bars_is_as_wide_as_requested(
    values: list[float | None], width: int, top: float | None
) -> None:
    drawn = sparkline(values, top=top, width=width)
    assert len(drawn) == width
    assert set(drawn) <= set(BARS) | {GAP}


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8))
def test_more_is_never_drawn_lower(values: list[float]) -> None:
    drawn = sparkline(sorted(values), width=len(values))
    assert list(drawn) == sorted(drawn, key=BARS.index)


@pytest.mark.parametrize(
    ("value", "bar"),
    [
        (0.0, 0),
        (12.4, 0),
        (12.6, 1),
        (49.9, 3),
        (50.0, 4),
        (87.4, 6),
        (87.6, 7),
        (100.0, 7),
    ],
)
def test_bars_change_at_eighths(value: float, bar: int) -> None:
    assert sparkline([value], top=100.0, width=1) == BARS[bar]


@pytest.mark.parametrize("top", [0.0, -1.0])
def test_a_scale_of_nothing_has_low_bars(top: float) -> None:
    assert sparkline([5.0, -5.0], top=top, width=2) == BARS[0] * 2


# What a screen shows of a run that goes on.


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
        status = running(
            live=live(
                seconds, running=running_now, waiting=0 if seconds > 75 else 16
            )
        )
        run = updated_run(run, run_body(status))
    gauges = {gauge.label: gauge for gauge in view(run).gauges}
    assert (gauges["running"].values, gauges["waiting"].values) == (
        (4, 8, 6),
        (16, 0, 0),
    )
    assert gauges["running"].top is None
    assert (
        gauges["KV cache"].now,
        gauges["KV cache"].top,
        gauges["output"].now,
    ) == (
        "40 %",
        100,
        "500 tok/s",
    )


def test_without_a_sample_there_is_no_gauge() -> None:
    assert view(followed(running(live=None))).gauges == ()
    assert view(followed(ended(), samples=(live(),))).gauges == ()


def test_a_figure_that_was_not_read_is_no_zero() -> None:
    unread = running(live=live(80, kv_cache_percent=None))
    run = updated_run(followed(running(live=live(75))), run_body(unread))
    gauges = {g.label: g for g in view(run).gauges}
    assert (gauges["KV cache"].values, gauges["KV cache"].now) == ((40, None), "-")


def test_a_figure_that_servers_lack_has_no_gauge() -> None:
    status = running(live=live(kv_cache_percent=None))
    assert "KV cache" not in {g.label for g in view(followed(status)).gauges}
    assert "KV" not in progress_line(status)
    assert "KV" in progress_line(running(live=live()))


def test_samples_are_bounded() -> None:
    run = followed()
    for second in range(MAX_SAMPLES + 10):
        run = updated_run(run, run_body(running(live=live(100 + second))))
    assert len(run.samples) == MAX_SAMPLES
    assert run.samples[-1].at == at(100 + MAX_SAMPLES + 9)


def test_a_run_that_no_operator_looks_at_says_what_to_look_for() -> None:
    run = updated_run(
        None,
        {**run_body(BenchmarkRunStatus()), "status": {"observedGeneration": -1}},
    )
    assert view(run, 14).trouble is None
    assert view(run, 16).trouble == NO_OPERATOR
    assert view(updated_run(run, run_body(running())), 16).trouble is None


def test_trouble_is_over_when_something_is_heard() -> None:
    run = followed(trouble="the cluster does not answer")
    assert view(updated_run(run, run_body(running()))).trouble is None
    golden(view(run).trouble)


def test_stages_are_kept_in_order_and_once() -> None:
    run = updated_run(
        followed(),
        run_body(running(done=2)),
        (StageLine(1, "b"), StageLine(0, "a")),
    )
    run = updated_run(
        run, run_body(running(done=3)), (StageLine(2, "c"), StageLine(1, "b again"))
    )
    assert [line.stage for line in view(run).stages] == ["a", "b again", "c"]


def test_a_status_of_another_version_is_rejected() -> None:
    with pytest.raises(ValueError, match="stagesTotal"):
        updated_run(
            None, {**run_body(running()), "status": {"progress": {"stagesDone": 1}}}
        )


SCALARS: dict[str, Any] = {
    "request_throughput": 7.984,
    "output_throughput": 812.34,
    "median_ttft_ms": 43.21,
    "p99_ttft_ms": 118.4,
}


def test_a_stage_in_a_line() -> None:
    line = stage_line(record("chat/rate=8/r1", sequence=3, scalars=SCALARS))
    assert (line.sequence, line.stage) == (3, "chat/rate=8/r1")
    assert line.figures == (
        "7.98 req/s",
        "812 tok/s",
        "TTFT p50 43.2 ms",
        "p99 118 ms",
    )


def test_what_a_record_lacks_is_left_out_and_failures_are_reported() -> None:
    whole = record("chat/rate=8/r1", scalars={"request_throughput": 4.0})
    count = len(whole.requests.ok)
    requests = whole.requests.model_copy(update={"ok": (0, 0, *[1] * (count - 2))})
    assert stage_line(whole.model_copy(update={"requests": requests})).figures == (
        "4 req/s",
        f"2 of {count} failed",
    )


# A followed run in the log of a pipeline.


def printed(*moments: tuple[float, FollowedRun]) -> list[list[str]]:
    """Lines of each moment, one after the other."""
    log = Log()
    return [
        log.lines(run, now=BEGIN + timedelta(seconds=seconds))
        for seconds, run in moments
    ]


def test_a_phase_change_prints_one_line() -> None:
    starting = followed(
        running(
            phase="Starting",
            message="the server is starting on n1",
            progress=None,
            live=None,
        )
    )
    first, repeated, then = printed(
        (20, starting), (25, starting), (72, followed(running(done=0)))
    )
    assert repeated == []
    golden(*first, then[0])


def test_another_message_is_a_line_while_the_server_loads() -> None:
    waiting = [
        followed(
            running(phase="WaitingForNode", message=text, progress=None, live=None)
        )
        for text in ("a", "b")
    ]
    assert printed((1, waiting[0]), (2, waiting[1])) == [
        ["00:01  WaitingForNode · a"],
        ["00:02  WaitingForNode · b"],
    ]


def test_live_figures_are_a_sign_of_life_now_and_then() -> None:
    moments = [
        (float(second), followed(running(live=live(second))))
        for second in range(100, 171, 5)
    ]
    output = printed(*moments)
    assert [100 + 5 * index for index, lines in enumerate(output) if lines] == [
        100,
        130,
        160,
    ]


def test_each_finished_stage_is_a_line_once() -> None:
    line = StageLine(0, "chat/rate=4/r1", ("3.98 req/s", "TTFT p50 43.2 ms"))
    before = followed(running(done=0))
    done = followed(running(done=1), stages=(line,))
    assert printed((80, before), (90, done), (91, done))[1:] == [
        ["01:30  stage 1/4 chat/rate=4/r1: 3.98 req/s, TTFT p50 43.2 ms"],
        [],
    ]


def test_a_stage_without_figures_was_measured_all_the_same() -> None:
    done = followed(
        running(done=2), stages=(StageLine(0, None), StageLine(1, "chat/rate=4/r1"))
    )
    golden(*printed((80, done))[0][:2])


def test_trouble_is_reported_and_that_it_is_over() -> None:
    run = followed()
    lines = printed(
        (80, run), (81, followed(trouble="no answer; trying again")), (85, run)
    )
    assert lines[2][0].startswith("01:25  Running")
    golden(*lines[1])


def test_the_end_is_a_line_and_its_reason_is_left_to_the_tables() -> None:
    golden(*printed((250, followed(ended("Failed"))))[0])
