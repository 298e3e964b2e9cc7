"""Clocks of GPUs that scatter, errors over a run of several load points, and limits in the spec."""

from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

import pytest
from benchrun.api import Sample, ServerStatus, Severity
from benchrun.judge.rules.hardware import gpu_clocks_differ, gpu_errors, gpu_slowed
from benchrun.judge.rules.rule import (
    Evidence,
    LoadPointContext,
    RunContext,
    StageFacts,
)
from benchrun.judge.stage_facts import expected_stage
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from unit.judge.specs import SERVER, spec
from unit.judge.stages import OPEN_LOOP, context, findings, only
from unit.measure.records import edge, load_point, record, sample

GPU_SERVER = ServerStatus(engine="VLLM", role="server", gpus=1)
POD = "chat-0"


def gpu_sample(place: float, *, clock: float = 1980.0, **figures: Any) -> Sample:
    """One for which the exporter had new figures: the energy counter always moves."""
    return sample(
        1000.0 + place,
        pod=POD,
        gpu_joules=700.0 * place,
        gpu_watts=700.0,
        sm_clock_mhz=clock,
        **figures,
    )


def gpu_samples(clocks: Sequence[float], **figures: Any) -> list[Sample]:
    """The first is left out, as it may be older than the stage."""
    return [
        gpu_sample(place, clock=clock, **figures)
        for place, clock in enumerate((clocks[0], *clocks))
    ]


def stage(
    samples: Sequence[Sample], *, server: ServerStatus = GPU_SERVER, **changes: Any
) -> StageFacts:
    windows = (Window("server", tuple(samples), (edge(),), expected=len(samples)),)
    return context(windows=windows, servers=(server,))(record(**changes))


def healthy(n: int = 20, *, sd: float = 0.0, seed: int = 1) -> list[float]:
    chance = Random(seed)
    return [15.0 * round(1980.0 * (1 + chance.gauss(0, sd)) / 15) for _ in range(n)]


def test_a_clock_that_moves_with_the_load_is_no_fall() -> None:
    """Of 500 stages at the power limit, whose clocks scatter by 2 %; six readings a stage."""
    found = sum(
        bool(findings(gpu_slowed(stage(gpu_samples(healthy(6, sd=0.02, seed=n))))))
        for n in range(500)
    )
    assert found <= 5


def test_a_fall_that_noise_does_not_explain_is_found_in_it() -> None:
    found = [
        only(
            gpu_slowed(
                stage(
                    gpu_samples(
                        [
                            *healthy(10, sd=0.01, seed=n),
                            *(0.92 * c for c in healthy(10, sd=0.01)),
                        ]
                    )
                )
            )
        )
        for n in range(20)
    ]
    assert {finding.evidence["cause"] for finding in found} == {
        "the clock fell during the stage"
    }


def repeats(*clocks: Sequence[float]) -> LoadPointContext:
    planned = load_point(repeats=len(clocks))
    stages = [
        stage(gpu_samples(each), stage_id=stage_id)
        for each, stage_id in zip(clocks, planned.stage_ids, strict=True)
    ]
    return LoadPointContext(
        planned, Thresholds(), OPEN_LOOP, ("50",), tuple(stages)
    )


def test_scattered_clocks_of_repeats_are_alike() -> None:
    found = (
        gpu_clocks_differ(
            repeats(*(healthy(6, sd=0.02, seed=5 * n + r) for r in range(4)))
        )
        for n in range(100)
    )
    assert sum(bool(findings(each)) for each in found) <= 1


# ---- errors
# ----------------------------------------------------------------------------------------------------------


def run_of(*of_stages: Sequence[dict[str, float]]) -> RunContext:
    """A run of stages in order of time, each of some samples; every stage is a load point of its own, in
    an order of its own."""
    found = {}
    numbers = count()
    for place, figures in enumerate(of_stages):
        planned = load_point(value=str(place + 1))
        samples = [
            sample(1000.0 + next(numbers), pod=POD, **each) for each in figures
        ]
        facts = stage(samples, stage_id=planned.stage_ids[0], sequence=place)
        found[planned.id] = LoadPointContext(
            planned, Thresholds(), OPEN_LOOP, ("50",), (facts,)
        ).summary()
    return RunContext(Thresholds(), dict(reversed(found.items())))


def errors(
    *of_stages: Sequence[dict[str, float]],
) -> list[tuple[str, Severity, Evidence]]:
    return [
        (f.stage_id, f.severity, f.evidence)
        for f in findings(gpu_errors(run_of(*of_stages)))
    ]


XID = "The last XID error"


@pytest.mark.parametrize("between", [False, True])
def test_a_new_xid_is_found_where_it_is_first_seen(between: bool) -> None:
    """Within the second stage, or between it and the first."""
    new = 94.0
    second = [{"gpu_xid": 45.0 if not between else new}, {"gpu_xid": new}]
    (found,) = errors([{"gpu_xid": 45.0}], second, [{"gpu_xid": new}])
    assert found[:2] == ("chat/rate=2", "Suspect")
    assert (found[2]["error"], found[2]["before"], found[2]["after"]) == (
        XID,
        45.0,
        new,
    )


def samples(percent: float, pod: str = "a") -> list[Sample]:
    return [
        sample(
            1000.5 + i,
            pod=pod,
            cpu_periods=100.0 * i,
            cpu_throttled_periods=percent * i,
            running=1.0,
        )
        for i in range(9)
    ]


@pytest.mark.parametrize(
    ("limits", "roles"),
    [({"cpu": "4"}, ["server"]), ({"cpu": 2}, ["server"]), ({"memory": "1Gi"}, [])],
)
def test_the_limit_is_the_specs(
    limits: Mapping[str, object], roles: list[str]
) -> None:
    limited = expected_stage(
        spec(endpoint=None, server=SERVER | {"resources": {"limits": limits}}),
        load_point(),
    )
    assert list(limited.cpu_limited) == roles
