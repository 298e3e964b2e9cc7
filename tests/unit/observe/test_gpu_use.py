"""Where the GPU seconds of a run go: every second of its servers has one use, however often it is
looked at."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus
from benchrun.observe import gpu_seconds, waits_since
from unit.decide.queues import WAITING
from unit.decide.scenes import Scene, instant, text

ACCEPTED = text(5)
LIFE: dict[str, Any] = {
    "scheduledTime": text(20),
    "serverReadyTime": text(60),
    "startTime": text(70),
    "serverReleasedTime": text(200),
}
RELEASED = {"serverReleasedTime": LIFE["serverReleasedTime"]}
TWO_GPUS = [
    {"role": role, "pod": role, "engine": "VLLM", "gpus": 1}
    for role in ("prefill", "decode")
]


def status(*known: str, **changes: Any) -> BenchmarkRunStatus:
    """Build a status with these of the instants."""
    times = {name: LIFE[name] for name in known}
    return BenchmarkRunStatus.model_validate(
        {"servers": TWO_GPUS, **times, **changes}
    )


def used(of: BenchmarkRunStatus, since: float, until: float) -> dict[str, float]:
    found = gpu_seconds(of, since=instant(since), until=instant(until))
    return {use: seconds for use, seconds in found.items() if seconds}


@pytest.mark.parametrize(
    ("known", "until", "expected"),
    [
        pytest.param((), 100, {}, id="no node yet"),
        pytest.param(["scheduledTime"], 50, {"starting": 60}, id="it loads"),
        pytest.param(
            ["scheduledTime", "serverReadyTime"],
            65,
            {"starting": 80, "other": 10},
            id="it warms up",
        ),
        pytest.param(
            ["scheduledTime", "serverReadyTime", "startTime"],
            100,
            {"starting": 80, "other": 20, "measuring": 60},
            id="it is measured",
        ),
        pytest.param(
            LIFE,
            1000,
            {"starting": 80, "other": 20, "measuring": 260},
            id="it is released",
        ),
        pytest.param(
            ["scheduledTime", "serverReleasedTime"],
            1000,
            {"starting": 360},
            id="it never was ready",
        ),
    ],
)
def test_uses(known: list[str], until: float, expected: dict[str, float]) -> None:
    assert used(status(*known), 0, until) == expected


@pytest.mark.parametrize("heard_after", [0, 12])
@pytest.mark.parametrize("step", [1, 7, 90])
def test_parts_add_up_to_the_whole(step: int, heard_after: int) -> None:
    """Also where the operator hears late of what begins: only the use may be another one."""
    whole = used(status(*LIFE), 0, 300)
    parts: dict[str, float] = {}
    counted_to = 0
    for end in range(step, 300 + step, step):
        begun = [name for name, at in LIFE.items() if at <= text(end - heard_after)]
        now = status(*begun, **RELEASED if end >= 200 else {})
        if found := gpu_seconds(now, since=instant(counted_to), until=instant(end)):
            counted_to = end
        for use, seconds in found.items():
            parts[use] = parts.get(use, 0) + seconds
    assert sum(parts.values()) == sum(whole.values())
    assert heard_after or parts == whole


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    assert used(status(*LIFE), 100, 90) == {}


def test_servers_of_a_run_that_lost_its_quota_are_counted_until_it_is_noted() -> (
    None
):
    queue = {"name": "gpus", "evictedTime": text(100)}
    measured = status("scheduledTime", "serverReadyTime", "startTime", queue=queue)
    assert used(measured, 0, 5000)["measuring"] == 60


def test_servers_without_gpus_take_none() -> None:
    assert used(status(*LIFE, servers=[]), 0, 300) == {}


@pytest.mark.parametrize(
    ("phase", "waits"),
    [
        ("Pending", True),
        ("WaitingForNode", True),
        ("Suspended", False),
        ("Failed", False),
    ],
)
def test_waiting(phase: str, waits: bool) -> None:
    found = waits_since(status(phase=phase, acceptedTime=ACCEPTED))
    assert found == (instant(5) if waits else None)


def test_a_server_that_has_a_node_no_longer_waits() -> None:
    waiting = Scene().server_pending().decide().status
    assert waits_since(waiting) is not None
    assert waits_since(Scene().server_loading().decide().status) is None


def test_a_run_without_a_quota_waits_since_it_stands_in_its_queue() -> None:
    queued = WAITING.at(7).settled().at(900).decide().status
    assert waits_since(queued) == instant(7)
    without_queue = status(phase="Pending")
    assert waits_since(without_queue) is None
