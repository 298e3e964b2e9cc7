"""Cancelled: server first, then client; what was measured is kept."""

from __future__ import annotations

import pytest
from unit.decide.saying import applied, deleted
from unit.decide.scenes import URL_ENDPOINT, Scene


@pytest.mark.parametrize(
    ("gone", "scene"),
    [
        pytest.param([], Scene(), id="before anything"),
        pytest.param(["Job"], Scene().client_created(), id="preparing"),
        pytest.param(["Deployment", "Job"], Scene().server_pending(), id="waiting for a node"),
        pytest.param(["Deployment", "Job"], Scene().server_loading(), id="loading"),
        pytest.param(["Deployment", "Job"], Scene().measuring(), id="measuring"),
        pytest.param(["Job"], Scene(spec=URL_ENDPOINT).measuring(), id="measuring an endpoint"),
        pytest.param([], Scene().with_spec(suspend=True), id="suspended"),
    ],
)
def test_everything_is_let_go_the_gpu_first(gone: list[str], scene: Scene) -> None:
    decision = scene.with_spec(cancel=True).ended()
    assert deleted(decision) == gone
    assert (decision.status.phase, applied(decision)) == ("Cancelled", [])
    assert decision.last_words is None


def test_the_instant_of_release_is_noted() -> None:
    assert (
        Scene().measuring().with_spec(cancel=True).at(100).ended().status.server_released_time == "2026-01-01T00:01:40Z"
    )


def test_a_record_that_just_came_is_stored_and_judged() -> None:
    decision = Scene().measuring().arrived(0).with_spec(cancel=True).ended()
    assert applied(decision) == ["ConfigMap stage 0"]
    assert [(r.cell, r.verdict) for r in decision.status.results] == [
        ("chat/rate=1", "Valid"),
        ("chat/rate=4", "Invalid"),
    ]


def test_it_wins_over_a_failure() -> None:
    failing = Scene().measuring().fails("CanaryFailed", "no").with_spec(cancel=True)
    assert failing.ended().status.phase == "Cancelled"
