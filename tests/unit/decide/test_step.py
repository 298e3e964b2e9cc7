"""`status.live`: the latest figures, gone with the run."""

import pytest
from unit.decide.scenes import URL_ENDPOINT, Scene

SHOWN = Scene().measuring().sampled(100).at(101).settled()


def test_the_latest_sample_is_shown() -> None:
    assert SHOWN.status["live"] == {"at": "2026-01-01T00:01:40Z", "running": 4.0}


def test_the_status_has_the_latest_however_soon_it_comes() -> None:
    """The runtime holds writes back that tell of nothing else."""
    live = SHOWN.sampled(103).at(104).decide().status.live
    assert live is not None
    assert live.at == "2026-01-01T00:01:43Z"


def test_a_pass_without_news_changes_nothing() -> None:
    assert SHOWN.at(104).settled().status == SHOWN.status


@pytest.mark.parametrize(
    "ended",
    [
        SHOWN.arrived(0, 1),
        SHOWN.with_spec(cancel=True),
        SHOWN.without("Deployment", "server"),
    ],
)
def test_an_ended_run_shows_none(ended: Scene) -> None:
    assert ended.ended().status.live is None


@pytest.mark.parametrize(
    ("expected", "before", "after"),
    [
        pytest.param(
            [], Scene(), Scene().client_created(), id="preparing is not worth one"
        ),
        pytest.param(
            [],
            Scene().client_created(),
            Scene().server_pending(),
            id="nor is waiting for a GPU",
        ),
        pytest.param(
            [], Scene().server_pending(), Scene().server_loading(), id="starting"
        ),
        pytest.param(
            [],
            Scene(spec=URL_ENDPOINT),
            Scene(spec=URL_ENDPOINT).client_ready(),
            id="endpoint asked",
        ),
        pytest.param(
            ["Running"], Scene().server_healthy(), Scene().measuring(), id="running"
        ),
        pytest.param(
            ["Suspended"], Scene(), Scene().with_spec(suspend=True), id="suspended"
        ),
        pytest.param(
            ["Completed"],
            Scene().measuring(),
            Scene().measuring().arrived(0, 1),
            id="completed",
        ),
        pytest.param(
            ["Cancelled"],
            Scene().measuring(),
            Scene().measuring().with_spec(cancel=True),
            id="cancelled",
        ),
        pytest.param(
            ["ServerGone"],
            Scene().measuring(),
            Scene().measuring().without("Deployment", "server"),
            id="failed",
        ),
    ],
)
def test_a_change_emits_one_event(
    expected: list[str], before: Scene, after: Scene
) -> None:
    changed = after.with_status(before.decide().status)
    assert [event.reason for event in changed.ended().events] == expected
    assert [
        event.reason for event in changed.answered().settled().decide().events
    ] == []


def test_progress_within_a_phase_is_no_event() -> None:
    assert Scene().measuring().arrived(0).decide().events == ()


@pytest.mark.parametrize(
    ("warning", "scene"),
    [
        pytest.param(False, Scene().measuring().arrived(0, 1), id="completed"),
        pytest.param(
            False, Scene().with_spec(cancel=True), id="cancelled, as was wished"
        ),
        pytest.param(
            True,
            Scene().client_created().fails("DatasetNotFound", "no such file"),
            id="failed",
        ),
        pytest.param(True, Scene().with_spec(repeats=0), id="refused"),
    ],
)
def test_only_failures_are_warnings(warning: bool, scene: Scene) -> None:
    assert [event.warning for event in scene.ended().events] == [warning]
