"""The steps of a run, its start in words, and what it did not keep."""

from datetime import timedelta

import pytest
from benchrun.api import BenchmarkRunStatus, ServerStatus, Startup, Truncated
from benchrun.observe import run_of
from benchrun.report.run_summary import missing_sentences, run_summary, startup_text, steps
from unit.report.going_on import BEGIN, at, ended, run_body, running
from unit.report.statuses import result


def timed_steps(status: BenchmarkRunStatus, *, after: float = 100) -> list[tuple[str, str, float | None]]:
    return [(s.name, s.state, s.seconds) for s in steps(status, now=BEGIN + timedelta(seconds=after))]


def test_each_part_begins_when_the_one_before_ended() -> None:
    assert timed_steps(running()) == [
        ("client", "Done", 10),
        ("node", "Done", 2),
        ("server", "Done", 48),
        ("warm-up", "Done", 10),
        ("stages", "UnderWay", 30),
    ]


def test_the_step_under_way_grows() -> None:
    loading = running(server_ready_time=None, start_time=None)
    assert timed_steps(loading, after=50)[2:] == [
        ("server", "UnderWay", 38), ("warm-up", "ToCome", None), ("stages", "ToCome", None)
    ]  # fmt: skip


def test_before_anything_happened() -> None:
    assert [state for _, state, _ in timed_steps(BenchmarkRunStatus())] == ["ToCome"] * 5
    assert timed_steps(BenchmarkRunStatus(accepted_time=at(0)), after=3)[0] == ("client", "UnderWay", 3)


def test_an_endpoint_has_no_node() -> None:
    assert [name for name, _, _ in timed_steps(running(scheduled_time=None))] == [
        "client",
        "server",
        "warm-up",
        "stages",
    ]


def test_when_the_run_has_ended_the_client_is_done_though_nobody_wrote_down_when() -> None:
    assert timed_steps(ended())[:3] == [("client", "Done", None), ("node", "Done", None), ("server", "Done", 48)]
    assert timed_steps(ended())[-1] == ("stages", "Done", 130)


def test_clocks_that_differ_make_no_negative_time() -> None:
    assert timed_steps(running(), after=60)[-1] == ("stages", "UnderWay", 0)


WHOLE = Startup(
    pod_seconds=40.0,
    image_pull_seconds=31.25,
    download_seconds=80.0,
    load_seconds=9.375,
    compile_seconds=22.0,
    warm_up_seconds=15.4,
)


@pytest.mark.parametrize(
    ("line", "ready", "startup"),
    [
        (
            "pod 40 s (image 31 s), download 1 min 20 s, load 9.4 s, compile 22 s, warm-up 15 s, other 18 s",
            185.0,
            WHOLE,
        ),
        (
            "pod 2 s (image there), load 0.02 s",
            2.3,
            Startup(pod_seconds=2.0, image_pull_seconds=0.0, load_seconds=0.02),
        ),
        ("pod 2 s, other 0.5 s", 2.5, Startup(pod_seconds=2.0)),
        ("load 3 s", 60.0, Startup(load_seconds=3.0)),
        ("pod 3 s, load 4 s", 6.5, Startup(pod_seconds=3.0, load_seconds=4.0)),
        ("pod 3 s", None, Startup(pod_seconds=3.0)),
        ("", 60.0, Startup()),
        ("", 60.0, None),
    ],
)
def test_a_start_in_a_line(line: str, ready: float | None, startup: Startup | None) -> None:
    assert startup_text(ServerStatus(role="server", seconds_to_ready=ready, startup=startup)) == line


def test_startup_phases_stand_below_the_server() -> None:
    server = ServerStatus(role="server", seconds_to_ready=185.0, startup=WHOLE)
    ran = ended(servers=[server])
    assert dict(run_summary(run_of(run_body(ran)), ran, now=BEGIN).facts)["start"] == startup_text(server)


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        (1, "judged by 2 of its 3 repeats, since the other records are not kept"),
        (2, "judged by 1 of its 3 repeats, since the other records are not kept"),
        (3, "not judged, since none of its records is kept"),
        (4, "not judged, since none of its records is kept"),
    ],
)
def test_how_much_of_a_cell_is_left(lost: int, sentence: str) -> None:
    stored = BenchmarkRunStatus(results=[result("a/rate=1", axis="rate", repeats=3)])
    assert missing_sentences(stored, {"a/rate=1": lost}) == [f"a/rate=1: {sentence}"]


def test_a_missing_cell_has_an_unknown_repeat_count() -> None:
    assert missing_sentences(BenchmarkRunStatus(), {"a/rate=1": 1}) == ["a/rate=1: not all of its records are kept"]


def test_nothing_is_missing() -> None:
    assert missing_sentences(BenchmarkRunStatus(results=[result()]), {}) == []


def test_a_timeline_that_was_cut_is_reported_last_and_no_other_list_is() -> None:
    cut = [
        Truncated(field=field, included=place, total=place + 3)
        for place, field in enumerate(("results", "findings", "timeline"))
    ]
    sentences = missing_sentences(BenchmarkRunStatus(truncated=cut), {"a/rate=1": 1})
    assert sentences == [
        "a/rate=1: not all of its records are kept",
        "2 of 5 chunks of the timeline were kept: samples of the servers are missing, and findings that rest on them may differ",
    ]
