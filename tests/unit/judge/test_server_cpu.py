"""Servers that the kernel stopped at their CPU limit."""

from collections.abc import Mapping

import pytest
from benchrun.api import Sample, Severity
from benchrun.judge.rules.hardware import server_throttled
from benchrun.judge.rules.rule import Code, StageFacts
from benchrun.judge.stage_facts import expected_load
from benchrun.measure import Window
from unit.judge.specs import SERVER, spec
from unit.judge.stages import context, only, open_loop_load, severity, unchecked
from unit.measure.records import cell, edge, record, sample

LIMITED = open_loop_load(servers={"server": 2}, cpu_limited=["server"])


def samples(percent: float, pod: str = "a") -> list[Sample]:
    return [
        sample(1000.5 + i, pod=pod, cpu_periods=100.0 * i, cpu_throttled_periods=percent * i, running=1.0)
        for i in range(9)
    ]


def stage(*readings: Sample, limited: bool = True) -> StageFacts:
    window = Window("server", readings, (edge(),), expected=9.0)
    return context(load=LIMITED if limited else open_loop_load(servers={"server": 2}), windows=(window,))(record())


@pytest.mark.parametrize(("expected", "percent"), [(None, 0), (None, 5), ("Suspect", 5.1), ("Suspect", 90)])
def test_more_than_one_period_in_twenty(expected: Severity | None, percent: float) -> None:
    found = list(server_throttled(stage(*samples(1), *samples(percent, "b"))))
    assert (severity(found), unchecked(found)) == (expected, [])


def test_the_server_that_was_stopped_most_is_named() -> None:
    finding = only(server_throttled(stage(*samples(7), *samples(40, "b"))))
    assert (finding.code, finding.evidence["server"], finding.weight) == (Code.SERVER_THROTTLED, "b", 40.0)


def test_a_limit_that_a_limit_range_set_counts_too() -> None:
    assert severity(server_throttled(stage(*samples(40), limited=False))) == "Suspect"


@pytest.mark.parametrize("read", [(), ("a",)])
def test_limited_servers_that_were_not_read_are_not_checked(read: tuple[str, ...]) -> None:
    (missed,) = unchecked(server_throttled(stage(*(each for pod in read for each in samples(0, pod)))))
    assert missed.code == Code.SERVER_THROTTLED


def test_without_a_limit_there_is_nothing_to_check() -> None:
    assert list(server_throttled(stage(sample(1001.0), limited=False))) == []


@pytest.mark.parametrize(
    ("limits", "roles"), [({"cpu": "4"}, ["server"]), ({"cpu": 2}, ["server"]), ({"memory": "1Gi"}, [])]
)
def test_the_limit_is_the_specs(limits: Mapping[str, object], roles: list[str]) -> None:
    limited = expected_load(spec(endpoint=None, server=SERVER | {"resources": {"limits": limits}}), cell())
    assert list(limited.cpu_limited) == roles
