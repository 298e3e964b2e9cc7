"""A followed run in the log of a pipeline."""

from datetime import timedelta

from benchrun.report.live_view import Log
from benchrun.report.watch_state import FollowedRun, StageLine
from unit.golden_messages import golden
from unit.report.going_on import BEGIN, ended, followed, live, running


def printed(*moments: tuple[float, FollowedRun]) -> list[list[str]]:
    """Lines of each moment, one after the other."""
    log = Log()
    return [log.lines(run, now=BEGIN + timedelta(seconds=seconds)) for seconds, run in moments]


def test_a_phase_change_prints_one_line() -> None:
    starting = followed(running(phase="Starting", message="the server is starting on n1", progress=None, live=None))
    first, repeated, then = printed((20, starting), (25, starting), (72, followed(running(done=0))))
    assert repeated == []
    golden(*first, then[0])


def test_another_message_is_a_line_while_the_server_loads() -> None:
    waiting = [followed(running(phase="WaitingForNode", message=text, progress=None, live=None)) for text in ("a", "b")]
    assert printed((1, waiting[0]), (2, waiting[1])) == [["00:01  WaitingForNode · a"], ["00:02  WaitingForNode · b"]]


def test_live_figures_are_a_sign_of_life_now_and_then() -> None:
    moments = [(float(second), followed(running(live=live(second)))) for second in range(100, 171, 5)]
    output = printed(*moments)
    assert [100 + 5 * index for index, lines in enumerate(output) if lines] == [100, 130, 160]


def test_each_finished_stage_is_a_line_once() -> None:
    line = StageLine(0, "chat/rate=4/r1", ("3.98 req/s", "TTFT p50 43.2 ms"))
    before, done = followed(running(done=0)), followed(running(done=1), stages=(line,))
    assert printed((80, before), (90, done), (91, done))[1:] == [
        ["01:30  stage 1/4 chat/rate=4/r1: 3.98 req/s, TTFT p50 43.2 ms"],
        [],
    ]


def test_a_stage_without_figures_was_measured_all_the_same() -> None:
    done = followed(running(done=2), stages=(StageLine(0, None), StageLine(1, "chat/rate=4/r1")))
    golden(*printed((80, done))[0][:2])


def test_trouble_is_reported_and_that_it_is_over() -> None:
    run = followed()
    lines = printed((80, run), (81, followed(trouble="no answer; trying again")), (85, run))
    assert lines[2][0].startswith("01:25  Running")
    golden(*lines[1])


def test_the_end_is_a_line_and_its_reason_is_left_to_the_tables() -> None:
    golden(*printed((250, followed(ended("Failed"))))[0])
