"""Misbehaviour is counted, not drawn."""

import re

import pytest
from benchrun_simulator.cold import Cold, ColdStart
from benchrun_simulator.compilation import Compilations, Compiler
from benchrun_simulator.drift import Changes, Drift
from benchrun_simulator.faults import FaultPlan, Share
from benchrun_simulator.settings import Faults


def failures(faults: Faults, requests: int) -> list[bool]:
    plan = FaultPlan(faults)
    return [plan.next_request_refused() is not None for _ in range(requests)]


def test_without_faults_nothing_fails() -> None:
    assert not any(failures(Faults(), 1000))


@pytest.mark.parametrize(
    ("percent", "expected"), [(1.0, 10), (2.5, 25), (50.0, 500), (100.0, 1000)]
)
def test_errors_have_exactly_their_share(percent: float, expected: int) -> None:
    assert sum(failures(Faults(error_percent=percent), 1000)) == expected


def test_errors_are_spread_evenly() -> None:
    assert failures(Faults(error_percent=25), 8) == [False, False, False, True] * 2


@pytest.mark.parametrize("percent", [0.1, 29.0, 57.0, 99.9])
def test_a_share_is_exact_at_every_thousand(percent: float) -> None:
    share = Share(percent)
    due = [share.next_is_due() for _ in range(5000)]
    assert [sum(due[start : start + 1000]) for start in range(0, 5000, 1000)] == [
        round(percent * 10)
    ] * 5


def test_the_rejected_get_another_status_than_the_failed() -> None:
    plan = FaultPlan(Faults(reject_percent=50, error_percent=25))
    assert [plan.next_request_refused() for _ in range(4)] == [None, 429, None, 500]


def test_resets_fail_first() -> None:
    plan = FaultPlan(Faults(reset_fails=2))
    assert [plan.next_reset_fails() for _ in range(3)] == [True, True, False]


def test_canaries_fail_first() -> None:
    assert failures(Faults(canary_fails=2), 4) == [True, True, False, False]


def test_the_process_dies_at_the_end_of_the_named_request() -> None:
    plan = FaultPlan(Faults(die_after_requests=3))
    assert [plan.last_request_served() for _ in range(4)] == [
        False,
        False,
        True,
        False,
    ]


# Servers that change their speed.


def factors(changes: Changes, *arrivals: float) -> list[float]:
    drift = Drift(changes)
    found = []
    for number, now in enumerate(arrivals, 1):
        drift.arrived(number, now=now)
        found.append(drift.factor(number, now=now))
    return found


def test_nothing_changes_by_itself() -> None:
    assert factors(Changes(), 0, 10, 1000) == [1, 1, 1]


def test_every_request_is_a_little_slower() -> None:
    slower = factors(Changes(percent_per_1000_requests=50), *range(2000))
    assert slower[999] == pytest.approx(1.5)
    assert slower[1999] == pytest.approx(2.0)


def test_every_second_is_slower_from_the_named_request_on() -> None:
    changes = Changes(percent_per_second=10, from_request=3)
    assert factors(changes, 0, 5, 8, 8, 13) == pytest.approx([1, 1, 1, 1, 1.5])


def test_a_token_that_falls_due_before_the_slowdown_is_as_usual() -> None:
    drift = Drift(Changes(percent_per_second=10, from_request=2))
    drift.arrived(2, now=5.0)
    assert drift.factor(1, now=4.0) == 1


def test_requests_alternate_in_groups() -> None:
    alternating = factors(
        Changes(alternate_requests=2, alternate_percent=20), *range(6)
    )
    assert alternating == pytest.approx([1, 1, 1.2, 1.2, 1, 1])


def test_what_no_client_sent_goes_at_the_usual_speed() -> None:
    assert (
        Drift(
            Changes(
                percent_per_1000_requests=9,
                alternate_requests=1,
                alternate_percent=50,
            )
        ).factor(0, now=1)
        == 1
    )


# Which requests a cold engine holds up.


def held_up(cold: Cold, *arrivals: float) -> list[float]:
    start = ColdStart(cold)
    return [
        start.held_up_seconds(number, now=now)
        for number, now in enumerate(arrivals, 1)
    ]


@pytest.mark.parametrize(
    ("cold", "delays"),
    [
        pytest.param(Cold(), [0, 0, 0, 0], id="no request by default"),
        pytest.param(
            Cold(requests=2, seconds=0.3), [0.3, 0.3, 0, 0], id="the first ones"
        ),
        pytest.param(
            Cold(requests=1, seconds=0.3, after_requests=2),
            [0, 0, 0.3, 0],
            id="the first after a warm-up",
        ),
    ],
)
def test_cold_requests_are_held_up(cold: Cold, delays: list[float]) -> None:
    assert held_up(cold, 0, 1, 2, 3) == delays


def test_an_idle_engine_gets_cold() -> None:
    cold = Cold(requests=2, seconds=0.3, idle_seconds=10)
    assert held_up(cold, 0, 1, 2, 12, 13, 14) == [0.3, 0.3, 0, 0.3, 0.3, 0]


def test_idleness_before_the_named_request_changes_nothing() -> None:
    cold = Cold(requests=1, seconds=0.3, after_requests=2, idle_seconds=10)
    assert held_up(cold, 0, 100, 101, 200) == [0, 0, 0.3, 0.3]


# When kernels are compiled, and what the log says then.

VLLMS_WARNING = re.compile(
    r"Triton kernel JIT compilation during inference: \w+\. "
    r"This causes a latency spike; consider extending warmup to cover this shape/config\."
)


def stalls(
    compilations: Compilations, *prompts: int
) -> tuple[list[float], list[str]]:
    lines: list[str] = []
    compiler = Compiler(compilations, warn=lines.append)
    found = [
        compiler.stall_seconds(number, prompt_tokens=tokens)
        for number, tokens in enumerate(prompts, 1)
    ]
    return found, lines


def test_none_by_default() -> None:
    assert stalls(Compilations(), 1, 2, 3) == ([0, 0, 0], [])


def test_one_at_the_named_request_in_vllms_words() -> None:
    found, lines = stalls(Compilations(at_request=2, seconds=0.4), 8, 8, 8)
    assert found == [0, 0.4, 0]
    assert len(lines) == 1
    assert VLLMS_WARNING.fullmatch(lines[0])


def test_each_power_of_two_compiles_once() -> None:
    found, lines = stalls(
        Compilations(for_each_length=True, seconds=0.4), 100, 128, 129, 256, 90, 1
    )
    assert found == [0.4, 0, 0.4, 0, 0, 0.4]
    assert [warning.split(": ")[1].split(".")[0] for warning in lines] == [
        "_kernel_up_to_128_tokens",
        "_kernel_up_to_256_tokens",
        "_kernel_up_to_1_tokens",
    ]


def test_a_request_admitted_twice_compiles_once() -> None:
    compiler = Compiler(
        Compilations(at_request=1, seconds=0.4), warn=lambda _: None
    )
    assert [compiler.stall_seconds(1, prompt_tokens=5) for _ in range(2)] == [
        0.4,
        0,
    ]
