"""Tokens per joule: throughput over the power of all roles that hold GPUs."""

from __future__ import annotations

import pytest
from benchrun.api import TOKENS_PER_JOULE, RoleFigures
from benchrun.judge.results import results
from benchrun.judge.row import tokens_per_joule
from unit.judge.specs import spec
from unit.measure.records import cell, record, sample


def role(name: str, watts: float | None) -> RoleFigures:
    return RoleFigures(role=name, gpu_power_mean_watts=watts)


@pytest.mark.parametrize(
    ("told", "throughput", "powers"),
    [
        ({TOKENS_PER_JOULE: 3.0}, 1200.0, [400.0]),
        ({TOKENS_PER_JOULE: 1.5}, 1200.0, [300.0, 500.0]),
        ({TOKENS_PER_JOULE: None}, 1200.0, [300.0, None]),
        ({TOKENS_PER_JOULE: None}, None, [300.0]),
        ({TOKENS_PER_JOULE: None}, 1200.0, [0.0]),
        ({}, 1200.0, [None, None]),
        ({}, 1200.0, []),
    ],
)
def test_throughput_over_power(
    told: dict[str, float | None], throughput: float | None, powers: list[float | None]
) -> None:
    roles = [role(f"role-{i}", watts) for i, watts in enumerate(powers)]
    assert tokens_per_joule({"output_throughput": throughput}, roles) == told


def test_it_stands_in_the_row_of_a_run_whose_gpus_were_read() -> None:
    [row] = results([cell()], [record()], [sample(1005.0, gpu_watts=250.0)], spec=spec()).results
    throughput = row.metrics["output_throughput"]
    assert throughput is not None
    assert row.metrics[TOKENS_PER_JOULE] == pytest.approx(throughput / 250.0, rel=1e-4)
    [other] = results([cell()], [record()], [sample(1005.0)], spec=spec()).results
    assert TOKENS_PER_JOULE not in other.metrics
