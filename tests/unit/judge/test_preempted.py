"""Preemptions: one is worth knowing, more than a few are in the tail."""

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.kv_cache import preempted
from benchrun.judge.rules.rule import Code
from benchrun_client.contract import StageRecord
from unit.judge.stages import context, findings, one_finding
from unit.measure.records import edge, record, requests

PREEMPTIONS = "num_preemptions_total"


def two_hundred(*preemptions: float) -> StageRecord:
    servers = tuple(edge(f"s{n}", rises={PREEMPTIONS: each}) for n, each in enumerate(preemptions))
    return record(requests=requests(ttft_us=[1] * 200, e2el_us=[2] * 200, output_tokens=[3] * 200), servers=servers)


@pytest.mark.parametrize(
    ("severity", "preemptions"),
    [
        pytest.param(None, (0.0,), id="none"),
        pytest.param("Note", (1.0,), id="one"),
        pytest.param("Note", (2.0,), id="1 % of the requests"),
        pytest.param("Suspect", (3.0,), id="above 1 %"),
        pytest.param("Suspect", (1.0, 2.0), id="servers are summed"),
        pytest.param("Suspect", (900.0,), id="more than requests: each again and again"),
    ],
)
def test_preemptions(severity: Severity | None, preemptions: tuple[float, ...]) -> None:
    found = findings(preempted(context()(two_hundred(*preemptions))))
    assert [(f.code, f.severity) for f in found] == ([(Code.PREEMPTED, severity)] if severity else [])


def test_evidence() -> None:
    assert preempted(context()(two_hundred(5.0))) == one_finding(
        Code.PREEMPTED, "Suspect", 2.5, preemptions=5.0, requests=200, percent=2.5, suspectPercent=1.0
    )
