"""Stages too short: in seconds, or in requests for those under way at a time."""

from __future__ import annotations

import pytest
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun.judge.rules.steady_state import window_too_short
from benchrun.judge.stage_profile import ExpectedLoad
from benchrun_client.contract import StageRecord
from unit.judge.stages import asked, context, findings, users
from unit.measure.records import STAGE, record, requests


def stage(count: int, seconds: float, *, e2el_seconds: float = 0.001, ok: int = 1) -> StageRecord:
    e2el = [round(1e6 * e2el_seconds)] * count
    columns = requests(ttft_us=[500] * count, e2el_us=e2el, output_tokens=[2] * count, ok=[ok] * count)
    return record(requests=columns, scalars={"duration": seconds})


@pytest.mark.parametrize(
    ("short", "of", "measured"),
    [
        pytest.param(False, users(8), stage(80, 10.0), id="ten requests a user, ten seconds"),
        pytest.param(True, users(8), stage(79, 10.0), id="one request less"),
        pytest.param(True, users(8), stage(80, 9.99), id="a little shorter"),
        pytest.param(False, asked(rate=4.0), stage(40, 10.0, e2el_seconds=1.0), id="a rate: four under way"),
        pytest.param(True, asked(rate=4.0), stage(40, 10.0, e2el_seconds=1.001), id="a rate: a little more"),
        pytest.param(False, asked(rate=4.0, concurrency=999), stage(40, 10.0, e2el_seconds=1.0), id="a cap never met"),
        pytest.param(False, asked(rate=None), stage(40, 10.0, e2el_seconds=10.0), id="all at once"),
        pytest.param(True, asked(rate=None), stage(40, 9.9), id="all at once, and too short"),
        pytest.param(False, users(8), stage(8, 1.0, ok=0), id="none answered: another rule's matter"),
    ],
)
def test_length(short: bool, of: ExpectedLoad, measured: StageRecord) -> None:
    found = findings(window_too_short(context(of=of)(measured)))
    assert [(f.code, f.severity) for f in found] == [(Code.WINDOW_TOO_SHORT, "Suspect")] * short


def test_evidence_of_a_short_stage() -> None:
    assert window_too_short(context(of=users(16))(stage(40, 8.0))) == [
        StageFinding(
            Code.WINDOW_TOO_SHORT,
            "Suspect",
            STAGE,
            {"requests": 40, "concurrency": 16.0, "neededRequests": 160.0, "seconds": 8.0, "neededSeconds": 10.0},
            weight=0.75,
        )
    ]
