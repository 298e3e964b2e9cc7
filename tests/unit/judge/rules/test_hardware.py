"""Clocks, errors and neighbours of the servers' GPUs, by what their exporter reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from benchrun.api import Sample, ServerStatus, Severity
from benchrun.judge.rules.hardware import (
    gpu_clocks_differ,
    gpu_errors,
    gpu_shared,
    gpu_slowed,
    gpus_unread,
    server_throttled,
)
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    LoadPointContext,
    RunContext,
    StageFacts,
)
from benchrun.judge.stage_facts import expected_stage
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from unit.judge.specs import SERVER, spec
from unit.judge.stages import (
    OPEN_LOOP,
    context,
    findings,
    only,
    open_loop_load,
    severity,
    unchecked,
)
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


RULES: Sequence[tuple[Code, Callable[[StageFacts], Found]]] = [
    (Code.GPU_SLOWED, gpu_slowed),
    (Code.GPU_ERRORS, gpus_unread),
    (Code.GPU_SHARED, gpus_unread),
]


@pytest.mark.parametrize(("code", "rule"), RULES)
def test_without_an_exporter_gpus_are_not_checked(
    code: Code, rule: Callable[[StageFacts], Found]
) -> None:
    missed = unchecked(rule(stage([sample(1001.0)])))
    assert code in {each.code for each in missed}


@pytest.mark.parametrize(("code", "rule"), RULES)
def test_without_gpus_there_is_nothing_to_check(
    code: Code, rule: Callable[[StageFacts], Found]
) -> None:
    assert (
        list(
            rule(
                stage(
                    [sample(1001.0)],
                    server=ServerStatus(engine="VLLM", role="server"),
                )
            )
        )
        == []
    )


# ---- what the exporter does not have by default
# ----------------------------------------------------------------------


def test_clocks_that_held_do_not_vouch_for_reasons_that_were_not_read() -> None:
    (missed,) = unchecked(gpu_slowed(stage(gpu_samples(healthy()))))
    assert missed.code == Code.GPU_SLOWED
    assert (
        list(
            gpu_slowed(
                stage(
                    gpu_samples(healthy()),
                    server=ServerStatus(engine="VLLM", role="server"),
                )
            )
        )
        == []
    )


def test_reasons_do_not_vouch_for_clocks_that_were_not_read() -> None:
    (missed,) = unchecked(
        gpu_slowed(
            stage(gpu_samples([1980.0] * 3, gpu_slowed=0.0, gpu_power_capped=0.0))
        )
    )
    assert missed.code == Code.GPU_SLOWED


READ = {
    "gpu_pods": 1.0,
    "gpu_xid": 0.0,
    "gpu_memory_errors": 0.0,
    "gpu_memory_mib": 72_000.0,
    "gpu_memory_total_mib": 81_000.0,
}
REPORTING = ServerStatus(
    engine="VLLM", role="server", gpus=1, reported={"gpu_memory_utilization": "0.9"}
)


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (None, ""),
        (Code.GPU_ERRORS, "gpu_xid"),
        (Code.GPU_ERRORS, "gpu_memory_errors"),
    ],
)
def test_one_figure_does_not_vouch_for_another(
    code: Code | None, missing: str
) -> None:
    figures = {name: value for name, value in READ.items() if name != missing}
    missed = unchecked(
        gpus_unread(stage([sample(1001.0, **figures)], server=REPORTING))
    )
    assert [each.code for each in missed] == ([] if code is None else [code])


# ---- clocks
# ----------------------------------------------------------------------------------------------------------


def healthy(n: int = 20, *, sd: float = 0.0, seed: int = 1) -> list[float]:
    chance = Random(seed)
    return [15.0 * round(1980.0 * (1 + chance.gauss(0, sd)) / 15) for _ in range(n)]


@pytest.mark.parametrize(
    ("expected", "slowed_samples"),
    [(None, 0), (None, 1), ("Suspect", 2), ("Suspect", 50), ("Suspect", 100)],
)
def test_heat_in_more_than_one_sample_in_a_hundred(
    expected: Severity | None, slowed_samples: int
) -> None:
    samples = gpu_samples(healthy(100))
    hot = [
        replace(s, gpu_slowed=float(n > 100 - slowed_samples), gpu_power_capped=0.0)
        for n, s in enumerate(samples)
    ]
    assert severity(gpu_slowed(stage(hot))) == expected


@pytest.mark.parametrize(
    ("expected", "capped"),
    [(None, 0.0), (None, 0.5), ("Note", 0.51), ("Note", 1.0)],
)
def test_the_power_limit_is_a_note_where_it_holds_most_of_the_time(
    expected: Severity | None, capped: float
) -> None:
    assert (
        severity(
            gpu_slowed(
                stage(
                    gpu_samples(healthy(), gpu_slowed=0.0, gpu_power_capped=capped)
                )
            )
        )
        == expected
    )


@pytest.mark.parametrize(
    ("expected", "fall_percent"),
    [
        (None, -8),
        (None, 0),
        (None, 2.9),
        ("Suspect", 3.1),
        ("Suspect", 8),
        ("Suspect", 40),
    ],
)
@pytest.mark.parametrize("n", [4, 12, 60])
def test_a_clock_that_falls_in_the_stage(
    expected: Severity | None, fall_percent: float, n: int
) -> None:
    clocks = [1980.0] * (n // 2) + [1980.0 * (1 - fall_percent / 100)] * (n // 2)
    assert severity(gpu_slowed(stage(gpu_samples(clocks)))) == expected


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


def test_samples_from_before_the_stage_do_not_count() -> None:
    """The exporter answers with its old figures until it renews them."""
    idle = [gpu_sample(0, clock=300.0)] * 3
    busy = [gpu_sample(n, clock=1980.0) for n in range(1, 9)]
    stale = [replace(s, at=1000.0 + n / 10) for n, s in enumerate(idle)]
    assert findings(gpu_slowed(stage([*stale, *busy]))) == []
    (missed,) = unchecked(gpu_slowed(stage(stale)))
    assert missed.code == Code.GPU_SLOWED


def test_three_samples_are_too_few() -> None:
    (missed,) = unchecked(gpu_slowed(stage(gpu_samples([1980.0, 1800.0, 1700.0]))))
    assert missed.code == Code.GPU_SLOWED


def repeats(*clocks: Sequence[float]) -> LoadPointContext:
    planned = load_point(repeats=len(clocks))
    stages = [
        stage(gpu_samples(each), stage_id=stage_id)
        for each, stage_id in zip(clocks, planned.stage_ids, strict=True)
    ]
    return LoadPointContext(
        planned, Thresholds(), OPEN_LOOP, ("50",), tuple(stages)
    )


@pytest.mark.parametrize(
    ("expected", "percent"),
    [(None, 0), (None, 2.9), ("Suspect", 3.1), ("Suspect", 12)],
)
def test_clocks_of_repeats(expected: Severity | None, percent: float) -> None:
    slower = [1980.0 * (1 - percent / 100)] * 6
    assert (
        severity(gpu_clocks_differ(repeats([1980.0] * 6, slower, [1980.0] * 6)))
        == expected
    )
    assert severity(gpu_clocks_differ(repeats(slower, [1980.0] * 6))) == expected


def test_scattered_clocks_of_repeats_are_alike() -> None:
    found = (
        gpu_clocks_differ(
            repeats(*(healthy(6, sd=0.02, seed=5 * n + r) for r in range(4)))
        )
        for n in range(300)
    )
    assert sum(bool(findings(each)) for each in found) <= 3


def test_one_repeat_has_nothing_to_differ_from() -> None:
    assert list(gpu_clocks_differ(repeats(healthy()))) == []


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


def test_errors_from_before_the_run_do_not_count() -> None:
    old = [{"gpu_xid": 45.0, "gpu_memory_errors": 3.0}] * 2
    assert errors(old, old, old) == []
    assert errors([{}], [{}]) == []


@pytest.mark.parametrize("new", [94.0, 31.0])
@pytest.mark.parametrize("between", [False, True])
def test_a_new_xid_is_found_where_it_is_first_seen(
    between: bool, new: float
) -> None:
    """Within the second stage, or between it and the first."""
    second = [{"gpu_xid": 45.0 if not between else new}, {"gpu_xid": new}]
    (found,) = errors([{"gpu_xid": 45.0}], second, [{"gpu_xid": new}])
    assert found[:2] == ("chat/rate=2", "Suspect")
    assert (found[2]["error"], found[2]["before"], found[2]["after"]) == (
        XID,
        45.0,
        new,
    )


@pytest.mark.parametrize("more", [1.0, 2.0, 50.0])
def test_new_memory_errors_are_invalid(more: float) -> None:
    (found,) = errors(
        [{"gpu_memory_errors": 1.0}, {"gpu_memory_errors": 1.0 + more}],
        [{"gpu_memory_errors": 1.0 + more}],
    )
    assert found[:2] == ("chat/rate=1", "Invalid")


def test_memory_errors_are_counted_anew_after_a_reset() -> None:
    (found,) = errors(
        [{"gpu_memory_errors": 5.0}],
        [{"gpu_memory_errors": 0.0}],
        [{"gpu_memory_errors": 0.0}, {"gpu_memory_errors": 2.0}],
    )
    assert found[:2] == ("chat/rate=3", "Invalid")
    assert (found[2]["before"], found[2]["after"]) == (0.0, 2.0)


def test_a_gpu_whose_driver_was_loaded_anew_has_no_new_errors() -> None:
    assert errors([{"gpu_xid": 94.0}], [{"gpu_xid": 0.0}], [{"gpu_xid": 0.0}]) == []


# ---- neighbours
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "pods"), [(None, 1.0), ("Suspect", 2.0), ("Suspect", 7.0)]
)
def test_pods_on_one_gpu(expected: Severity | None, pods: float) -> None:
    assert severity(gpu_shared(stage([sample(1001.0, gpu_pods=pods)]))) == expected


@pytest.mark.parametrize(
    ("expected", "used", "total", "utilization"),
    [
        (None, 72_900, 81_000, "0.9"),
        (None, 76_900, 81_000, "0.9"),  # CUDA graphs and NCCL beyond vLLM's share.
        ("Suspect", 77_100, 81_000, "0.9"),
        ("Suspect", 60_000, 81_000, "0.5"),
        (
            None,
            16_000,
            16_384,
            "0.9",
        ),  # A small GPU: what comes on top is a larger part of it.
        ("Suspect", 11_000, 16_384, "0.5"),
    ],
)
def test_more_memory_than_the_server_takes_is_anothers(
    expected: Severity | None, used: float, total: float, utilization: str
) -> None:
    server = ServerStatus(
        engine="VLLM",
        role="server",
        gpus=1,
        reported={"gpu_memory_utilization": utilization},
    )
    readings = [
        sample(1001.0, gpu_pods=1.0, gpu_memory_mib=mib, gpu_memory_total_mib=total)
        for mib in (used, 1000.0)
    ]
    assert severity(gpu_shared(stage(readings, server=server))) == expected


@pytest.mark.parametrize(
    "reported",
    [{}, {"gpu_memory_utilization": "0.5", "kv_cache_memory_bytes": "1073741824"}],
)
def test_without_a_share_nobody_knows_what_the_server_takes(
    reported: dict[str, str],
) -> None:
    facts = stage(
        [sample(1001.0, **READ)],
        server=ServerStatus(
            engine="VLLM", role="server", gpus=1, reported=reported
        ),
    )
    assert [each.code for each in unchecked(gpu_shared(facts))] == [Code.GPU_SHARED]


def test_without_free_memory_processes_outside_of_kubernetes_are_not_looked_for() -> (
    None
):
    figures = {
        name: value
        for name, value in READ.items()
        if name != "gpu_memory_total_mib"
    }
    (missed,) = unchecked(
        gpu_shared(stage([sample(1001.0, **figures)], server=REPORTING))
    )
    assert missed.code == Code.GPU_SHARED


# Servers that the kernel stopped at their CPU limit.

LIMITED = open_loop_load(servers={"server": 2}, cpu_limited=["server"])


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


def stage_server_cpu(*readings: Sample, limited: bool = True) -> StageFacts:
    window = Window("server", readings, (edge(),), expected=9.0)
    return context(
        load=LIMITED if limited else open_loop_load(servers={"server": 2}),
        windows=(window,),
    )(record())


@pytest.mark.parametrize(
    ("expected", "percent"),
    [(None, 0), (None, 5), ("Suspect", 5.1), ("Suspect", 90)],
)
def test_more_than_one_period_in_twenty(
    expected: Severity | None, percent: float
) -> None:
    found = list(
        server_throttled(stage_server_cpu(*samples(1), *samples(percent, "b")))
    )
    assert (severity(found), unchecked(found)) == (expected, [])


@pytest.mark.parametrize(
    ("expected", "percent"),
    [(None, 0), (None, 5), ("Suspect", 5.1), ("Suspect", 90)],
)
def test_more_than_a_twentieth_of_the_time_without_a_core(
    expected: Severity | None, percent: float
) -> None:
    readings = [
        sample(
            1000.5 + i,
            pod=pod,
            cpu_waiting_seconds=share / 100 * 8 / 7 * i,
            running=1.0,
        )
        for i in range(9)
        for pod, share in (("a", 1), ("b", percent))
    ]
    found = list(server_throttled(stage_server_cpu(*readings, limited=False)))
    assert (severity(found), unchecked(found)) == (expected, [])
    assert [finding.evidence for finding in findings(found)] == [
        {"server": "b", "waitingPercent": percent, "suspectPercent": 5.0}
        for _ in found
    ]


def test_the_server_that_was_stopped_most_is_named() -> None:
    finding = only(
        server_throttled(stage_server_cpu(*samples(7), *samples(40, "b")))
    )
    assert (finding.code, finding.evidence["server"], finding.weight) == (
        Code.SERVER_THROTTLED,
        "b",
        40.0,
    )


def test_the_worse_of_both_is_told() -> None:
    waiting = [
        sample(1000.5 + i, pod="b", cpu_waiting_seconds=0.6 * i, running=1.0)
        for i in range(9)
    ]
    finding = only(server_throttled(stage_server_cpu(*samples(7), *waiting)))
    assert {
        "server": "b",
        "waitingPercent": 52.5,
    }.items() <= finding.evidence.items()


def test_a_limit_that_a_limit_range_set_counts_too() -> None:
    assert (
        severity(server_throttled(stage_server_cpu(*samples(40), limited=False)))
        == "Suspect"
    )


@pytest.mark.parametrize("read", [(), ("a",)])
def test_limited_servers_that_were_not_read_are_not_checked(
    read: tuple[str, ...],
) -> None:
    (missed,) = unchecked(
        server_throttled(
            stage_server_cpu(*(each for pod in read for each in samples(0, pod)))
        )
    )
    assert missed.code == Code.SERVER_THROTTLED


def test_without_a_limit_there_is_nothing_to_check() -> None:
    assert (
        list(server_throttled(stage_server_cpu(sample(1001.0), limited=False)))
        == []
    )


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
