"""Which servers are deleted where nothing is known but runs and servers."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.decide import unneeded_servers
from unit.decide.scenes import HEALTHY, SCHEDULED, Scene

MEASURING = Scene().measuring().settled()
WAITING = Scene().client_ready().server_loading().settled()
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}
LIMITS = {"startupDeadlineSeconds": 600, "runDeadlineSeconds": 1200}


def lets_go(scene: Scene, **run: Any) -> bool:
    """Whether all servers are deleted by what is known of the run alone."""
    facts = scene.facts()
    alone = replace(
        facts,
        run=replace(facts.run, **run),
        children=replace(facts.children, pods=()),
    )
    found = unneeded_servers(alone)
    assert len(found) in (
        0,
        len([c for c in scene.objects if c.kind == "Deployment"]),
    )
    return bool(found)


@pytest.mark.parametrize("scene", [MEASURING, WAITING])
def test_a_server_that_is_needed_stays(scene: Scene) -> None:
    assert not lets_go(scene)


@pytest.mark.parametrize(
    "change",
    [
        {"deleting": True},
        {"spec": {**MEASURING.spec, "cancel": True}},
        {"spec": {"cancel": True}},
        {"status": {**MEASURING.status, **FAILED}},
        {
            "status": {
                **MEASURING.status,
                "ending": {"reason": "CrashLoop", "message": "m"},
            }
        },
        {
            "status": {
                **MEASURING.status,
                "serverReleasedTime": "2026-01-01T00:01:00Z",
            }
        },
    ],
    ids=[
        "deleted",
        "cancelled",
        "cancelled, unreadable",
        "ended",
        "ends",
        "released before",
    ],
)
def test_a_server_of_a_run_that_ends_goes(change: dict[str, Any]) -> None:
    assert lets_go(MEASURING, **change)


@pytest.mark.parametrize(
    ("scene", "since", "seconds"),
    [
        pytest.param(WAITING.with_spec(**LIMITS), SCHEDULED, 600, id="startup"),
        pytest.param(MEASURING.with_spec(**LIMITS), HEALTHY, 1200, id="run"),
        pytest.param(
            MEASURING.with_spec(runDeadlineSeconds=0),
            SCHEDULED,
            86_400,
            id="hold, without limit",
        ),
        pytest.param(
            MEASURING.with_spec(repeats=0),
            SCHEDULED,
            86_400,
            id="hold, of another version",
        ),
    ],
)
def test_a_server_that_is_held_too_long_goes(
    scene: Scene, since: float, seconds: float
) -> None:
    assert not lets_go(scene.at(since + seconds - 1))
    assert lets_go(scene.at(since + seconds + 1))
