"""`status.live`: no more often than the operator can afford over all runs, and gone with the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchrun.decide.decision import Context
from unit.decide.scenes import Scene

SHOWN = Scene().measuring().sampled(100).at(101).settled()


def test_the_latest_reading_is_shown() -> None:
    assert SHOWN.status["live"] == {"at": "2026-01-01T00:01:40Z", "running": 4.0}


@pytest.mark.parametrize(
    ("expected", "now"),
    [
        pytest.param("2026-01-01T00:01:40Z", 104, id="4 s later: as it was"),
        pytest.param("2026-01-01T00:01:43Z", 105, id="5 s later: the new one"),
    ],
)
def test_it_is_not_written_more_often_than_every_five_seconds(expected: str, now: int) -> None:
    live = SHOWN.sampled(103).at(now).decide().status.live
    assert live is not None
    assert live.at == expected


def test_many_runs_share_the_writes() -> None:
    busy = replace(SHOWN, context=Context(client_image="client:1", live_interval_seconds=30))
    live = busy.sampled(120).at(121).decide().status.live
    assert live is not None
    assert live.at == "2026-01-01T00:01:40Z"


def test_a_pass_without_news_changes_nothing() -> None:
    assert SHOWN.at(104).settled().status == SHOWN.status


@pytest.mark.parametrize(
    "ended", [SHOWN.arrived(0, 1), SHOWN.with_spec(cancel=True), SHOWN.without("Deployment", "server")]
)
def test_an_ended_run_shows_none(ended: Scene) -> None:
    assert ended.decide().status.live is None
