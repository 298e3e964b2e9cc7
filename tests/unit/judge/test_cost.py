"""What a million tokens cost: by hand, and where it can't be told."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import COSTS, TOKENS_PER_JOULE, Cost, CostStatus, Result, RoleFigures, ServerStatus
from benchrun.judge.result_row import (
    PER_GPU,
    cost_status,
    gpus_of,
    tokens_per_joule,
    with_costs,
    with_throughput_per_gpu,
)
from benchrun.judge.results import results
from unit.judge.specs import spec
from unit.measure.records import cell, record, requests, sample

PER_HOUR = Cost(per_hour="3600")
A_DOLLAR_A_SECOND = CostStatus(currency="USD", per_hour=3600.0)


def servers(*gpus: int) -> list[ServerStatus]:
    """One entry a role, each with so many GPUs."""
    return [ServerStatus(role=f"role-{i}", gpus=held) for i, held in enumerate(gpus)]


def measured(**metrics: float | None) -> Result:
    return Result(
        cell="chat/rate=4", workload="chat", axis="rate", value="4", repeats=1, repeats_planned=1, metrics=metrics,
        verdict="Valid",
    )  # fmt: skip


def test_the_price_of_a_gpu_counts_for_every_gpu_of_every_role() -> None:
    found = cost_status(Cost(per_gpu_hour="2.49", currency="EUR"), servers(2, 0, 4))
    assert found == CostStatus(currency="EUR", per_hour=14.94)


def test_a_price_of_the_whole_does_not_look_at_gpus() -> None:
    for held in (servers(), servers(0), servers(8)):
        assert cost_status(PER_HOUR, held) == A_DOLLAR_A_SECOND


@pytest.mark.parametrize("held", [servers(), servers(0, 0)])
def test_without_a_gpu_its_price_is_not_that_of_the_servers(held: list[ServerStatus]) -> None:
    assert cost_status(Cost(per_gpu_hour="2.49"), held) == CostStatus(currency="USD", per_hour=None)


def test_without_a_price_nothing_is_said() -> None:
    assert cost_status(None, servers(1)) is None
    assert with_costs(measured(duration=1.0), None) == measured(duration=1.0)


def test_by_hand() -> None:
    """50 s at a dollar a second, for 100,000 tokens out and 400,000 in."""
    row = with_costs(
        measured(duration=50.0, total_output_tokens=100_000, total_input_tokens=400_000), A_DOLLAR_A_SECOND
    )
    assert row.metrics["cost_per_million_output_tokens"] == 500.0
    assert row.metrics["cost_per_million_total_tokens"] == 100.0


def test_five_digits() -> None:
    row = with_costs(measured(duration=1.0, total_output_tokens=3, total_input_tokens=4), A_DOLLAR_A_SECOND)
    assert [row.metrics[key] for key in COSTS] == [333_330.0, 142_860.0]


@pytest.mark.parametrize(
    ("metrics", "price"),
    [
        pytest.param(
            {"duration": 50.0, "total_output_tokens": 10, "total_input_tokens": 10}, None, id="no price known"
        ),
        pytest.param({"duration": 0.0, "total_output_tokens": 0, "total_input_tokens": 0}, 3600.0, id="no token"),
        pytest.param({"duration": None, "total_output_tokens": 9, "total_input_tokens": 9}, 3600.0, id="no duration"),
        pytest.param({}, 3600.0, id="nothing measured"),
    ],
)
def test_what_is_not_known_is_null_and_never_free(metrics: dict[str, Any], price: float | None) -> None:
    row = with_costs(measured(**metrics), CostStatus(currency="USD", per_hour=price))
    assert [row.metrics[key] for key in COSTS] == [None, None]


def test_prompts_alone_have_a_cost_of_all_tokens() -> None:
    row = with_costs(measured(duration=1.0, total_output_tokens=0, total_input_tokens=1_000_000), A_DOLLAR_A_SECOND)
    assert [row.metrics[key] for key in COSTS] == [None, 1.0]


def test_repeats_are_priced_together_and_failed_requests_answer_for_nothing() -> None:
    """Twice 10 s; of two requests with 5 tokens each, one failed in the second repeat."""
    stages = [
        record("chat/rate=4/r1", requests=requests(output_tokens=(5, 5)), scalars={"duration": 10.0}),
        record("chat/rate=4/r2", requests=requests(output_tokens=(5, 5), ok=(1, 0)), scalars={"duration": 10.0}),
    ]
    [row] = results([cell(repeats=2)], stages, [], spec=spec(cost={"perHour": "3600"}), servers=servers(1)).results
    assert row.metrics["cost_per_million_output_tokens"] == pytest.approx(20 / 15 * 1e6, rel=1e-4)


def test_rows_of_a_run_without_a_price_have_no_such_figures() -> None:
    [row] = results([cell()], [record()], [], spec=spec(), servers=servers(1)).results
    assert not set(COSTS) & set(row.metrics)


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


def test_gpus_of_every_role_share_the_throughput() -> None:
    held = gpus_of(servers(2, 0, 4))
    assert with_throughput_per_gpu(measured(output_throughput=1000.0), held).metrics == {
        "output_throughput": 1000.0,
        PER_GPU: 166.67,
    }


@pytest.mark.parametrize("held", [servers(), servers(0, 0)])
def test_without_a_gpu_nothing_is_said(held: list[ServerStatus]) -> None:
    row = measured(output_throughput=1000.0)
    assert with_throughput_per_gpu(row, gpus_of(held)) == row


@pytest.mark.parametrize("metrics", [{}, {"output_throughput": None}])
def test_of_an_unknown_throughput_so_is_its_share(metrics: dict[str, float | None]) -> None:
    assert with_throughput_per_gpu(measured(**metrics), 2).metrics[PER_GPU] is None


def test_rows_of_a_run_have_it_beside_their_costs() -> None:
    """Ten tokens in ten seconds, by two roles of two GPUs each."""
    stage = record(requests=requests(output_tokens=(5, 5)), scalars={"duration": 10.0})
    for of_spec in (spec(), spec(cost={"perHour": "3600"})):
        [row] = results([cell()], [stage], [], spec=of_spec, servers=servers(2, 2)).results
        assert (row.metrics["output_throughput"], row.metrics[PER_GPU]) == (1.0, 0.25)
    assert row.metrics["cost_per_million_output_tokens"] == 1e6


def test_a_run_whose_servers_are_not_known_has_none() -> None:
    [row] = results([cell()], [record()], [], spec=spec(), servers=()).results
    assert PER_GPU not in row.metrics
