"""The loads of the examples with simulated servers, on a machine that is not busy: no rule finds
more than a Note. So their tests lower no finding."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.judge.rules.all_rules import judge_stage
from benchrun.judge.rules.rule import StageFacts
from unit.judge.queues import Server, closed_loop, open_loop

EXAMPLES = Path(__file__).parents[4] / "examples"
SEEDS = range(4)


def workloads(file: str) -> dict[str, dict[str, Any]]:
    """Those of the only object of the example, by name."""
    spec = yaml.safe_load((EXAMPLES / file).read_text())["spec"]
    return {each["name"]: each for each in spec.get("template", spec)["workloads"]}


def simulator(
    slots: int, first_seconds: float, rest_seconds: float, jitter: float
) -> Server:
    """First token and rest take the same time whatever runs beside."""
    return Server(
        slots=slots,
        prefill_seconds=0.0001,
        decode_seconds=rest_seconds,
        variation=jitter,
        hiccup_chance=0.0,
        held_up=lambda number: first_seconds,
    )


def suspected(stages: list[StageFacts]) -> set[str]:
    return {
        f.code for each in stages for f in judge_stage(each) if f.severity != "Note"
    }


@pytest.mark.parametrize("spread_seconds", [0.002, 0.28])
@pytest.mark.parametrize("jitter", [0.0, 0.05])
@pytest.mark.parametrize("slots", [4, 8, 16])
def test_sixteen_users_at_each_variant_of_the_sweep(
    slots: int, jitter: float, spread_seconds: float
) -> None:
    users = workloads("sweep-simulator.yaml")["users"]
    (concurrency,) = users["load"]["concurrencies"]
    server = simulator(slots, 0.05, 0.23, jitter)
    stages = [
        closed_loop(
            server,
            concurrency=concurrency,
            count=users["requests"],
            seed=seed,
            spread_seconds=spread_seconds,
        )
        for seed in SEEDS
    ]
    assert suspected(stages) == set()


@pytest.mark.parametrize("jitter", [0.0, 0.05])
@pytest.mark.parametrize("concurrency", [1, 4, 8, 9, 16])
def test_users_who_begin_together_around_the_answer_of_the_search(
    concurrency: int, jitter: float
) -> None:
    count = workloads("search-simulator.yaml")["users"]["requests"]
    server = simulator(8, 0.04, 0.16, jitter)
    stages = [
        closed_loop(server, concurrency=concurrency, count=count, seed=s)
        for s in SEEDS
    ]
    assert suspected(stages) == set()


@pytest.mark.parametrize("jitter", [0.0, 0.05])
@pytest.mark.parametrize("rate", [5.0, 20.0, 28.3, 30.6, 36.0])
def test_arrivals_up_to_nine_tenths_of_what_the_server_can_do(
    rate: float, jitter: float
) -> None:
    seconds = workloads("search-simulator.yaml")["arrivals"]["durationSeconds"]
    server = simulator(8, 0.04, 0.16, jitter)
    stages = [
        open_loop(server, rate=rate, count=int(rate * seconds), seed=s)
        for s in SEEDS
    ]
    assert suspected(stages) == set()


def test_arrivals_beyond_it_are_told() -> None:
    server = simulator(8, 0.04, 0.16, 0.0)
    stages = [open_loop(server, rate=80, count=2400, seed=seed) for seed in SEEDS]
    assert "NotSteadyState" in suspected(stages)
