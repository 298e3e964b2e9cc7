"""The way of a run and its screen at their edges: parts that nobody wrote down, scales, and what may still come."""

from datetime import timedelta

import pytest
from benchrun.api import BenchmarkRunStatus, Condition
from benchrun.report.live_view import NO_OPERATOR, SILENT_SECONDS, live_view, seconds_since_begin
from benchrun.report.run_summary import steps
from benchrun.report.tables import BARS, GAP, sparkline
from benchrun.report.watch_state import MAX_STAGES, FollowedRun, StageLine, updated_run
from hypothesis import given, strategies as st
from unit.report.going_on import BEGIN, at, ended, followed, live, run_body, running


def timed_steps(status: BenchmarkRunStatus, after: float = 100) -> list[tuple[str, str, float | None]]:
    return [(s.name, s.state, s.seconds) for s in steps(status, now=BEGIN + timedelta(seconds=after))]


@pytest.mark.parametrize("condition", ["False", "Unknown"])
def test_a_client_that_is_not_ready_is_under_way(condition: str) -> None:
    not_yet = (Condition(type="ClientReady", status=condition, reason="x", last_transition_time=at(10)),)
    early = running(conditions=not_yet, scheduled_time=None, server_ready_time=None, start_time=None)
    assert timed_steps(early, 7)[:2] == [("client", "UnderWay", 7), ("node", "ToCome", None)]


def test_while_a_node_is_sought_it_is_a_part_of_the_way() -> None:
    seeking = running(scheduled_time=None, server_ready_time=None, start_time=None)
    assert timed_steps(seeking, 30)[:3] == [
        ("client", "Done", 10),
        ("node", "UnderWay", 20),
        ("server", "ToCome", None),
    ]


def test_a_run_that_was_not_accepted_is_under_way_nowhere() -> None:
    assert {state for _, state, _ in timed_steps(running(accepted_time=None))} == {"Done", "UnderWay"}
    assert timed_steps(BenchmarkRunStatus(phase="Pending"))[0] == ("client", "ToCome", None)


def test_parts_without_an_instant_before_one_with_it_are_done_but_not_timed() -> None:
    blurred = running(conditions=(), server_ready_time=None, scheduled_time=at(12))
    assert timed_steps(blurred) == [
        ("client", "Done", None),
        ("node", "Done", None),
        ("server", "Done", None),
        ("warm-up", "Done", None),
        ("stages", "UnderWay", 30),
    ]


# ---- the screen ------------------------------------------------------------------------------------------------------


def left(run: FollowedRun, after: float = 100) -> str | None:
    return live_view(run, now=BEGIN + timedelta(seconds=after)).left


@pytest.mark.parametrize(
    ("done", "total", "after", "words"),
    [
        (1, 2, 100, "about 10 s left"),  # 30 s for one and a half: half a stage to come
        (2, 4, 120, "about 30 s left"),  # 50 s for two and a half: one and a half to come
        (3, 4, 140, "about 10 s left"),
        (1, 4, 60, "about 0 s left"),  # clocks differ
        (1, 1, 100, None),
        (2, 1, 100, None),
    ],
)
def test_stages_are_taken_to_last_equally_long(done: int, total: int, after: float, words: str | None) -> None:
    assert left(followed(running(done=done, total=total)), after) == words


@pytest.mark.parametrize("stage", ["chat/search-02/r1", None])
def test_a_search_that_was_seen_has_the_most_there_can_be(stage: str | None) -> None:
    run = followed(running(stage=stage), stages=(StageLine(0, "chat/search-01/r1"), StageLine(1, None)))
    assert left(run) == "at most 50 s left"


def test_a_workload_called_search_is_no_search() -> None:
    assert left(followed(running(stage="search-engine/rate=1/r1"))) == "about 50 s left"


@pytest.mark.parametrize(("seconds", "message"), [(SILENT_SECONDS - 1, None), (SILENT_SECONDS, NO_OPERATOR)])
def test_a_silent_client_is_reported(seconds: float, message: str | None) -> None:
    run = updated_run(None, {**run_body(BenchmarkRunStatus()), "status": {"observedGeneration": -1}})
    assert live_view(run, now=BEGIN + timedelta(seconds=seconds)).trouble == message


@pytest.mark.parametrize("status", [{"observedGeneration": 0}, {"phase": "Pending", "observedGeneration": -1}])
def test_an_operator_that_has_looked_is_not_missed(status: dict[str, object]) -> None:
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
    assert [run.stages[0].sequence, run.stages[-1].sequence, len(run.stages)] == [5, MAX_STAGES + 4, MAX_STAGES]


def test_samples_of_the_same_instant_are_equal() -> None:
    run = updated_run(followed(running(live=live(80, running=1))), run_body(running(live=live(80, running=9))))
    assert [each.running for each in run.samples] == [1]


def test_a_run_is_known_by_its_name() -> None:
    run = updated_run(None, run_body(running(), name="chat"))
    assert (run.name, run.created_at, len(run.samples)) == ("chat", BEGIN, 1)


def test_a_run_that_reports_nothing_shows_nothing() -> None:
    shown = live_view(followed(BenchmarkRunStatus(phase="Preparing")), now=BEGIN)
    assert (shown.phase, shown.message, shown.done, shown.total, shown.stage, shown.gauges) == (
        "Preparing", "", 0, 0, None, ()
    )  # fmt: skip


# ---- bars ------------------------------------------------------------------------------------------------------------

VALUES = st.lists(st.none() | st.floats(-1e9, 1e9, allow_nan=False), max_size=50)


@given(VALUES, st.integers(0, 40), st.none() | st.floats(0, 1e9))
def test_a_row_of_bars_is_as_wide_as_requested(values: list[float | None], width: int, top: float | None) -> None:
    drawn = sparkline(values, top=top, width=width)
    assert len(drawn) == width
    assert set(drawn) <= set(BARS) | {GAP}


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8))
def test_more_is_never_drawn_lower(values: list[float]) -> None:
    drawn = sparkline(sorted(values), width=len(values))
    assert list(drawn) == sorted(drawn, key=BARS.index)


@pytest.mark.parametrize(
    ("value", "bar"), [(0.0, 0), (12.4, 0), (12.6, 1), (49.9, 3), (50.0, 4), (87.4, 6), (87.6, 7), (100.0, 7)]
)
def test_bars_change_at_eighths(value: float, bar: int) -> None:
    assert sparkline([value], top=100.0, width=1) == BARS[bar]


@pytest.mark.parametrize("top", [0.0, -1.0])
def test_a_scale_of_nothing_has_low_bars(top: float) -> None:
    assert sparkline([5.0, -5.0], top=top, width=2) == BARS[0] * 2
