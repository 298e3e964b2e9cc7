"""A load that follows a trace: an open loop without a rate, which nobody expects to stand."""

import pytest
from benchrun.api import BenchmarkRunSpec, Cell, Severity
from benchrun.judge.rules.client import client_saturated
from benchrun.judge.rules.load import all_at_once, rate_not_achieved
from benchrun.judge.rules.steady_state import not_steady_state
from benchrun.judge.stage_facts import StageFacts, expected_load
from benchrun.measure import NoPlateau
from benchrun.plan import cells
from benchrun_client.contract import StageRecord
from unit.judge.specs import workload
from unit.judge.stages import context, findings, open_loop_load, unchecked
from unit.measure.records import record, requests
from unit.plan.specs import spec_body

SECOND = 1_000_000
TRACE = open_loop_load(rate=None, follows_trace=True)


def replayed(due_seconds: list[float], late_seconds: list[float]) -> StageRecord:
    """Requests due at these instants, each sent so much later."""
    count = len(due_seconds)
    columns = {
        "start_us": [round((due + late) * SECOND) for due, late in zip(due_seconds, late_seconds, strict=True)],
        "queue_us": [round(late * SECOND) for late in late_seconds],
        "ttft_us": [1000] * count,
        "e2el_us": [2000] * count,
        "output_tokens": [2] * count,
    }
    return record(requests=requests(**columns))


def test_a_replayed_trace_is_neither_a_rate_nor_users_nor_all_at_once() -> None:
    body = spec_body(
        workloads=[
            workload("chat")
            | {"dataset": {"timedTrace": {"file": {"path": "/trace.jsonl"}}}, "load": {"traceSpeeds": ["1", "2.0"]}}
        ]
    )
    spec = BenchmarkRunSpec.model_validate(body)
    found: tuple[Cell, ...] = cells(spec)
    assert [(cell.id, cell.axis, cell.value) for cell in found] == [
        ("chat/speed=1", "speed", "1"),
        ("chat/speed=2", "speed", "2"),
    ]
    load = expected_load(spec, found[1])
    assert (load.rate, load.concurrency, load.closed_loop, load.capped) == (None, None, False, False)
    assert load.follows_trace
    assert not load.all_at_once
    assert load.has_due_instants


@pytest.mark.parametrize(
    ("severity", "late_seconds"),
    [
        pytest.param(None, [0.0] * 100, id="on time"),
        pytest.param(None, [5.0] * 100, id="all of it late by the same"),
        pytest.param(None, [n * 0.03 for n in range(100)], id="drawn out by 3 %"),
        pytest.param("Suspect", [n * 0.04 for n in range(100)], id="drawn out by 4 %"),
        pytest.param("Invalid", [n * 0.12 for n in range(100)], id="drawn out by 12 %"),
    ],
)
def test_a_trace_takes_as_long_to_send_as_it_says(severity: Severity | None, late_seconds: list[float]) -> None:
    found = findings(rate_not_achieved(context(load=TRACE)(replayed([float(n) for n in range(100)], late_seconds))))
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_a_trace_of_one_instant_has_no_pace() -> None:
    assert findings(rate_not_achieved(context(load=TRACE)(replayed([0.0] * 9, [0.0] * 9)))) == []


def test_a_trace_is_not_expected_to_stand() -> None:
    stage = replayed([n * n / 100 for n in range(100)], [0.0] * 100)
    assert StageFacts(stage, TRACE).plateau is NoPlateau.FOLLOWS_TRACE
    assert list(not_steady_state(context(load=TRACE)(stage))) == []
    assert list(all_at_once(context(load=TRACE)(stage))) == []


def test_a_client_that_sends_late_is_reported() -> None:
    late = replayed([float(n) for n in range(100)], [0.5] * 100)
    (found,) = findings(client_saturated(context(load=TRACE)(late)))
    assert found.evidence["sendLagP99Ms"] == 500
    on_time = replayed([float(n) for n in range(100)], [0.0] * 100)
    assert findings(client_saturated(context(load=TRACE)(on_time))) == []
    assert unchecked(rate_not_achieved(context(load=TRACE)(replayed([0.0], [0.0]))))
