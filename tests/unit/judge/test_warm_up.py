"""A warm-up that did not do all it was to."""

from __future__ import annotations

import pytest
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun.judge.rules.warm_up import warmup_incomplete
from benchrun_client.contract import StageRecord, WarmupOutcome
from unit.judge.stages import context
from unit.measure.records import STAGE, record


def after(answered: int, failed: int = 0) -> StageRecord:
    """The first stage of a workload whose warm-up was to send 16 requests."""
    return record(warmup=WarmupOutcome(requests=16, answered=answered, failed=failed, took_us=60_010_000))


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param(after(16), id="all answered"),
        pytest.param(record(), id="a later stage, or no warm-up"),
    ],
)
def test_nothing_to_say(measured: StageRecord) -> None:
    assert warmup_incomplete(context()(measured)) == []


@pytest.mark.parametrize(
    ("failed", "cut_short", "measured"),
    [
        pytest.param(1, 0, after(15, failed=1), id="one failed"),
        pytest.param(0, 9, after(7), id="cut short"),
        pytest.param(2, 7, after(7, failed=2), id="both"),
    ],
)
def test_what_is_missing_is_told_apart(failed: int, cut_short: int, measured: StageRecord) -> None:
    (found,) = warmup_incomplete(context()(measured))
    assert isinstance(found, StageFinding)
    assert (found.evidence["failed"], found.evidence["cutShort"]) == (failed, cut_short)


def test_evidence() -> None:
    assert warmup_incomplete(context()(after(12, failed=1))) == [
        StageFinding(
            Code.WARMUP_INCOMPLETE,
            "Note",
            STAGE,
            {"requests": 16, "answered": 12, "failed": 1, "cutShort": 3, "seconds": 60.01},
            weight=0.25,
        )
    ]
