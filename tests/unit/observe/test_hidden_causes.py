"""A failed start whose cause stands further up in its log."""

from __future__ import annotations

from benchrun.observe.failures.diagnosis import find_pod_with_hidden_cause
from benchrun.observe.trim import pod_of
from unit.observe.bodies import ended, pod_body
from unit.observe.test_last_words import LOGS

RUNNING = pod_of(pod_body())


def test_a_cause_out_of_sight_is_worth_a_log() -> None:
    hidden = ended(1, LOGS["kv-small"][-2048:])
    assert find_pod_with_hidden_cause([RUNNING, hidden]) == hidden
    assert find_pod_with_hidden_cause([RUNNING, ended(2, LOGS["unknown-flag"])]) is None
