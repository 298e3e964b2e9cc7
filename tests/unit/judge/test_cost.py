"""What a million tokens cost: by hand, and where it can't be told."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import COSTS, Cost, CostStatus, Result, ServerStatus
from benchrun.judge.results import results
from benchrun.judge.row import cost_status, priced
from unit.judge.specs import spec
from unit.measure.records import cell, record, requests

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
    assert priced(measured(duration=1.0), None) == measured(duration=1.0)


def test_by_hand() -> None:
    """50 s at a dollar a second, for 100,000 tokens out and 400,000 in."""
    row = priced(measured(duration=50.0, total_output_tokens=100_000, total_input_tokens=400_000), A_DOLLAR_A_SECOND)
    assert row.metrics["cost_per_million_output_tokens"] == 500.0
    assert row.metrics["cost_per_million_total_tokens"] == 100.0


def test_five_digits() -> None:
    row = priced(measured(duration=1.0, total_output_tokens=3, total_input_tokens=4), A_DOLLAR_A_SECOND)
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
    row = priced(measured(**metrics), CostStatus(currency="USD", per_hour=price))
    assert [row.metrics[key] for key in COSTS] == [None, None]


def test_prompts_alone_have_a_cost_of_all_tokens() -> None:
    row = priced(measured(duration=1.0, total_output_tokens=0, total_input_tokens=1_000_000), A_DOLLAR_A_SECOND)
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
