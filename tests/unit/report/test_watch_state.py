"""What is known of a sweep that is followed, and how it is shown while it goes on."""

from dataclasses import replace
from datetime import timedelta

import pytest
from benchrun.report.live_view import NO_OPERATOR, LiveView, Log, live_view
from benchrun.report.watch_state import FollowedSweep, updated_sweep, with_run
from unit.golden_messages import golden
from unit.plan.specs import Json
from unit.report.finished_sweeps import batches, sweep_object
from unit.report.going_on import BEGIN, ended, live, running
from unit.report.sweeps_going_on import SPEC, run_of_sweep, sweep_going_on

TITLE = "base (seqs-v1-r1)"


def followed(*runs: Json, sweep: Json | None = None) -> FollowedSweep:
    """A sweep that was seen, then its runs."""
    found = updated_sweep(None, sweep or sweep_going_on())
    for run in runs:
        found = with_run(found, run)
    return found


def view(sweep: FollowedSweep, seconds: float = 100) -> LiveView:
    return live_view(sweep, now=BEGIN + timedelta(seconds=seconds))


def printed(*moments: tuple[float, FollowedSweep]) -> list[list[str]]:
    """Lines of each moment, one after the other."""
    log = Log()
    return [
        log.lines(sweep, now=BEGIN + timedelta(seconds=seconds))
        for seconds, sweep in moments
    ]


# ---- what is known
# ---------------------------------------------------------------------------------------------------


def test_runs_that_go_on_are_known_by_their_variants() -> None:
    sweep = followed(
        run_of_sweep(1, running(done=0)),
        run_of_sweep(2, running(done=1)),
        run_of_sweep(1, running(done=3)),
    )
    assert {name: each.title for name, each in sweep.under_way.items()} == {
        "seqs-v1-r1": TITLE,
        "seqs-v2-r1": "wide (seqs-v2-r1)",
    }
    progress = sweep.under_way["seqs-v1-r1"].status.progress
    assert progress is not None
    assert progress.stages_done == 3


def test_a_run_that_ends_goes_over_to_those_that_have() -> None:
    sweep = followed(run_of_sweep(1, running()), run_of_sweep(1, ended("Suspect")))
    assert sweep.under_way == {}
    assert [(run.title, run.status.verdict) for run in sweep.ended] == [
        (TITLE, "Suspect")
    ]
    repeated = with_run(sweep, run_of_sweep(1, ended("Suspect")))
    assert len(repeated.ended) == 1, "the API server tells of it more than once"


def test_runs_that_had_ended_before_are_no_news() -> None:
    sweep = followed(run_of_sweep(1, ended()), run_of_sweep(2, running()))
    assert (list(sweep.under_way), sweep.ended) == (["seqs-v2-r1"], ())


def test_a_run_that_is_deleted_is_gone() -> None:
    sweep = with_run(
        followed(run_of_sweep(1, running())),
        run_of_sweep(1, running()),
        deleted=True,
    )
    assert (sweep.under_way, sweep.ended) == ({}, ())


def test_any_event_ends_the_trouble() -> None:
    troubled = replace(followed(), trouble="no answer")
    assert with_run(troubled, run_of_sweep(1, running())).trouble is None
    assert updated_sweep(troubled, sweep_going_on()).trouble is None


def test_texts_of_its_template_are_known() -> None:
    assert updated_sweep(None, batches().body).texts_per_prompt == {"chat": 4}


def test_a_status_of_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="runs"):
        updated_sweep(None, sweep_object({"runs": 3}, spec=SPEC))


# ---- on a screen
# -----------------------------------------------------------------------------------------------------


def test_runs_stand_in_place_of_stages() -> None:
    head = view(followed(sweep=sweep_going_on(done=("", "OutOfGPUMemory"))))
    assert (head.name, head.phase, head.unit) == ("seqs", "Running", "runs")
    assert (head.done, head.total) == (2, 3)
    golden(head.elapsed)


def test_the_time_left_takes_runs_for_equally_long() -> None:
    head = view(followed(sweep=sweep_going_on(done=("", ""))), 100)
    assert view(followed(), 100).left is None, (
        "nobody can tell before one has ended"
    )
    assert (
        view(followed(sweep=sweep_going_on(done=("",), suspend=True)), 100).left
        is None
    )
    golden(head.left)


def test_a_run_that_goes_on_shows_all_that_its_own_screen_would() -> None:
    [run] = view(
        followed(
            run_of_sweep(1, running()), run_of_sweep(1, running(live=live(90)))
        )
    ).under_way
    assert (run.name, run.done, run.total, run.stage) == (
        TITLE,
        1,
        4,
        "chat/rate=8/r1",
    )
    assert [gauge.label for gauge in run.gauges] == [
        "running",
        "waiting",
        "KV cache",
        "output",
    ]
    assert len(run.gauges[0].values) == 2


def test_a_sweep_that_no_operator_looks_at_is_reported() -> None:
    unseen = followed(sweep=sweep_object({"observedGeneration": -1}, spec=SPEC))
    later = replace(unseen, created_at=BEGIN)
    assert view(later, 10).trouble is None
    assert view(later, 16).trouble == NO_OPERATOR


# ---- in a log
# --------------------------------------------------------------------------------------------------------


def test_variants_take_run_facts_at_the_sweeps_time() -> None:
    starting = running(
        phase="Starting",
        message="the server is starting on n1",
        progress=None,
        live=None,
        accepted_time=None,
    )
    first, repeated, then = printed(
        (60, followed(run_of_sweep(1, starting))),
        (61, followed(run_of_sweep(1, starting))),
        (72, followed(run_of_sweep(1, running(done=0)))),
    )
    assert repeated == []
    assert [line.split(" · ")[0] for line in then] == [f"01:12  {TITLE}: Running"]
    golden(*first)


def test_the_end_of_a_run_is_a_line_and_then_how_many_have_ended() -> None:
    going = run_of_sweep(1, running())
    done = run_of_sweep(1, ended())
    before = followed(going)
    over = followed(going, done)
    counted = updated_sweep(over, sweep_going_on(done=("",)))
    lines = printed((100, before), (200, over), (201, counted))
    assert (lines[1], lines[2]) == (
        [f"03:20  {TITLE}: Valid"],
        ["03:21  Running · 1/3 runs"],
    )


def test_the_failure_reason_is_printed_at_once() -> None:
    going = run_of_sweep(1, running())
    failed = run_of_sweep(1, ended("Failed"))
    lines = printed((100, followed(going)), (200, followed(going, failed)))
    golden(*lines[1])


def test_signs_of_life_come_from_the_runs_or_from_the_sweep_itself() -> None:
    moments = [
        (float(second), followed(run_of_sweep(1, running(live=live(second)))))
        for second in range(100, 171, 5)
    ]
    assert [
        100 + 5 * index for index, lines in enumerate(printed(*moments)) if lines
    ] == [
        100,
        130,
        160,
    ]
    suspended = followed(
        sweep=sweep_going_on(done=("",), under_way=0, suspend=True)
    )
    output = printed(*((float(second), suspended) for second in range(100, 171, 5)))
    assert [100 + 5 * index for index, lines in enumerate(output) if lines] == [
        100,
        130,
        160,
    ]
    golden(*output[0])


def test_trouble_is_reported_and_that_it_is_over() -> None:
    sweep = followed(run_of_sweep(1, running()))
    lines = printed(
        (80, sweep),
        (81, replace(sweep, trouble="no answer; trying again")),
        (85, sweep),
    )
    assert (lines[1], lines[2]) == (
        ["01:21  no answer; trying again"],
        ["01:25  Running · 0/3 runs"],
    )
