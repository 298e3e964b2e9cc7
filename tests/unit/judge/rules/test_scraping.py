"""Requests in flight by the servers' samples and at the client."""

from dataclasses import replace

import pytest
from benchrun.judge.rules.rule import Code, Found
from benchrun.judge.rules.scraping import littles_law
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import findings


def broken(found: Found) -> bool:
    return [(f.code, f.severity) for f in findings(found)] == [
        (Code.LITTLES_LAW_BROKEN, "Suspect")
    ]


@pytest.mark.parametrize("seed", range(10))
def test_requests_that_wait_unseen_are_found(seed: int) -> None:
    """A gateway holds every request back for half as long as it takes: the servers know of two in
    three."""
    stage = closed_loop(Server(), concurrency=16, count=320, seed=seed)
    (window,) = stage.windows
    fewer = tuple(
        replace(s, running=(s.running or 0) * 2 / 3) for s in window.samples
    )
    assert broken(
        littles_law(replace(stage, windows=(replace(window, samples=fewer),)))
    )


@pytest.mark.parametrize("clock_seconds", [-2.0, 0.0, 2.0])
def test_clocks_that_differ_break_no_law(clock_seconds: float) -> None:
    for seed in range(10):
        for stage in (
            closed_loop(Server(), concurrency=16, count=320, seed=seed),
            open_loop(Server(), rate=10, count=300, seed=seed),
        ):
            (window,) = stage.windows
            moved = tuple(
                replace(s, at=s.at + clock_seconds) for s in window.samples
            )
            assert (
                findings(
                    littles_law(
                        replace(stage, windows=(replace(window, samples=moved),))
                    )
                )
                == []
            )
