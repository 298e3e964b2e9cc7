"""`status.live`: the latest figures, gone with the run."""

from __future__ import annotations

import pytest
from unit.decide.scenes import Scene

SHOWN = Scene().measuring().sampled(100).at(101).settled()


def test_the_latest_reading_is_shown() -> None:
    assert SHOWN.status["live"] == {"at": "2026-01-01T00:01:40Z", "running": 4.0}


def test_the_status_has_the_latest_however_soon_it_comes() -> None:
    """The runtime holds writes back that tell of nothing else."""
    live = SHOWN.sampled(103).at(104).decide().status.live
    assert live is not None
    assert live.at == "2026-01-01T00:01:43Z"


def test_a_pass_without_news_changes_nothing() -> None:
    assert SHOWN.at(104).settled().status == SHOWN.status


@pytest.mark.parametrize(
    "ended", [SHOWN.arrived(0, 1), SHOWN.with_spec(cancel=True), SHOWN.without("Deployment", "server")]
)
def test_an_ended_run_shows_none(ended: Scene) -> None:
    assert ended.ended().status.live is None
