"""Processes that begin together or not, as their client measured it."""

from __future__ import annotations

import pytest
from benchrun.judge.rules.client import shards_out_of_step
from benchrun.judge.rules.rule import Code
from benchrun_client.contract import Shards
from unit.judge.stages import context, findings
from unit.measure.records import record


@pytest.mark.parametrize(
    ("skew_us", "error_us", "suspect"),
    [(0, 0, False), (20_000, 0, False), (20_001, 0, True), (10_000, 10_000, False), (10_000, 10_001, True)],
)
def test_what_they_were_apart_and_what_their_clocks_may_hide_count_together(
    skew_us: int, error_us: int, suspect: bool
) -> None:
    measured = record(shards=Shards(count=3, start_skew_us=skew_us, clock_error_us=error_us))
    found = findings(shards_out_of_step(context()(measured)))
    assert [(each.code, each.severity) for each in found] == [(Code.SHARDS_OUT_OF_STEP, "Suspect")] * suspect
    assert all(each.evidence["processes"] == 3 for each in found)


def test_one_process_is_in_step_with_itself() -> None:
    assert shards_out_of_step(context()(record())) == []
