"""The way of a run."""

from __future__ import annotations

from datetime import timedelta

from benchrun.api import BenchmarkRunStatus
from benchrun.report.run_summary import steps
from unit.report.going_on import BEGIN, at, ended, running


def told(status: BenchmarkRunStatus, *, after: float = 100) -> list[tuple[str, str, float | None]]:
    return [(s.name, s.state, s.seconds) for s in steps(status, now=BEGIN + timedelta(seconds=after))]


def test_each_part_begins_when_the_one_before_ended() -> None:
    assert told(running()) == [
        ("client", "Done", 10),
        ("node", "Done", 2),
        ("server", "Done", 48),
        ("warm-up", "Done", 10),
        ("stages", "UnderWay", 30),
    ]


def test_what_is_under_way_grows() -> None:
    loading = running(server_ready_time=None, start_time=None)
    assert told(loading, after=50)[2:] == [
        ("server", "UnderWay", 38), ("warm-up", "ToCome", None), ("stages", "ToCome", None)
    ]  # fmt: skip


def test_before_anything_happened() -> None:
    assert [state for _, state, _ in told(BenchmarkRunStatus())] == ["ToCome"] * 5
    assert told(BenchmarkRunStatus(accepted_time=at(0)), after=3)[0] == ("client", "UnderWay", 3)


def test_an_endpoint_has_no_node() -> None:
    assert [name for name, _, _ in told(running(scheduled_time=None))] == ["client", "server", "warm-up", "stages"]


def test_when_the_run_has_ended_the_client_is_done_though_nobody_wrote_down_when() -> None:
    assert told(ended())[:3] == [("client", "Done", None), ("node", "Done", None), ("server", "Done", 48)]
    assert told(ended())[-1] == ("stages", "Done", 130)


def test_clocks_that_differ_make_no_negative_time() -> None:
    assert told(running(), after=60)[-1] == ("stages", "UnderWay", 0)
