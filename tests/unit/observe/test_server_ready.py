"""Questions about a role's pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from benchrun.observe.server_ready import (
    find_pod_with_hidden_cause,
    has_restarted,
    is_ready,
    is_running,
    scheduled_at,
    staying,
)
from benchrun.observe.trim import pod_of
from benchrun.observe.views import Pod
from unit.observe.bodies import ended, gone, pending, pod_body, waiting
from unit.observe.test_last_words import LOGS

RUNNING = pod_of(pod_body())
READY = replace(RUNNING, ready=True)
LEAVING = replace(READY, deleting=True)
WAITING = pending("0/1 nodes are available: 1 Insufficient cpu.")
EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ready", "replicas", "pods"),
    [
        pytest.param(True, 1, [READY], id="one of one"),
        pytest.param(False, 1, [RUNNING], id="running is not ready"),
        pytest.param(False, 2, [READY, RUNNING], id="one of two"),
        pytest.param(True, 2, [READY, READY], id="two of two"),
        pytest.param(False, 1, [LEAVING], id="one that is being deleted"),
        pytest.param(False, 1, [], id="none"),
    ],
)
def test_is_ready(ready: bool, replicas: int, pods: list[Pod]) -> None:
    assert is_ready(pods, replicas=replicas) == ready


@pytest.mark.parametrize(
    ("running", "pods"),
    [
        pytest.param(True, [RUNNING], id="running"),
        pytest.param(True, [WAITING, RUNNING], id="one of two"),
        pytest.param(False, [WAITING], id="no node yet"),
        pytest.param(False, [waiting("ContainerCreating")], id="being made"),
        pytest.param(False, [ended(1)], id="ended"),
        pytest.param(False, [LEAVING], id="being deleted"),
    ],
)
def test_is_running(running: bool, pods: list[Pod]) -> None:
    assert is_running(pods) == running


@pytest.mark.parametrize(
    ("restarted", "pods"),
    [
        pytest.param(False, [RUNNING], id="first start"),
        pytest.param(True, [ended(1, restarts=1, again=True)], id="second start"),
        pytest.param(True, [RUNNING, ended(1, restarts=1)], id="one of two"),
    ],
)
def test_has_restarted(restarted: bool, pods: list[Pod]) -> None:
    assert has_restarted(pods) == restarted


@pytest.mark.parametrize(
    ("expected", "pods"),
    [
        pytest.param(
            LATE, [replace(RUNNING, scheduled_at=LATE), replace(RUNNING, scheduled_at=EARLY)], id="the last of two"
        ),
        pytest.param(None, [RUNNING, WAITING], id="one still waits"),
        pytest.param(None, [], id="none"),
        pytest.param(EARLY, [replace(RUNNING, scheduled_at=EARLY), LEAVING], id="one that leaves does not count"),
    ],
)
def test_scheduled_at(expected: datetime | None, pods: list[Pod]) -> None:
    assert scheduled_at(pods) == expected


def test_staying_leaves_out_the_deleted_and_the_ended() -> None:
    assert staying([RUNNING, LEAVING, gone("Evicted"), WAITING]) == (RUNNING, WAITING)


def test_a_cause_out_of_sight_is_worth_a_log() -> None:
    hidden = ended(1, LOGS["kv-small"][-2048:])
    assert find_pod_with_hidden_cause([RUNNING, hidden]) == hidden
    assert find_pod_with_hidden_cause([RUNNING, ended(2, LOGS["unknown-flag"])]) is None
