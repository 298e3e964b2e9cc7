"""Counters and durations of a record that no server can have: left out, whatever is made of them. The contract refuses most
of them; nothing here leans on that, so they are put in past it."""

from __future__ import annotations

import pytest
from benchrun.measure.cells import duration_seconds
from benchrun.measure.edges import GENERATION_TOKENS, is_reset, rise
from benchrun.measure.windows import pod_windows
from benchrun_client.contract import START_TIME
from unit.measure.records import edge, record, sample

WORSE = [1e308, float("inf"), float("-inf"), float("nan"), -1.0, 1.1e15]


@pytest.mark.parametrize("value", WORSE)
def test_a_counter_that_no_server_has_has_not_risen(value: float) -> None:
    honest = edge(before={GENERATION_TOKENS: 0.0})
    forged = honest.model_copy(update={"after": {**(honest.after or {}), GENERATION_TOKENS: value}})
    edges = [forged] * 3
    assert rise(edges, GENERATION_TOKENS) is None
    assert not any(map(is_reset, edges))


@pytest.mark.parametrize("value", WORSE)
def test_readings_are_found_without_it(value: float) -> None:
    snapshot = {START_TIME: value, GENERATION_TOKENS: value}
    stage = record(servers=(edge().model_copy(update={"before": snapshot, "after": snapshot}),))
    (window,) = pod_windows(stage, [sample(stage.first_send_unix_us / 1e6)])
    assert len(window.samples) == 1


@pytest.mark.parametrize("value", WORSE)
def test_a_duration_that_no_stage_has_is_taken_from_the_clock(value: float) -> None:
    stage = record().model_copy(update={"scalars": {"duration": value}})
    assert duration_seconds(stage) == (stage.last_receive_unix_us - stage.first_send_unix_us) / 1e6
