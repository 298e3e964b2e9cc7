"""Output throughput for each GPU: by hand, and where it can't be told."""

from __future__ import annotations

import pytest
from benchrun.api import ServerStatus
from benchrun.judge.results import results
from benchrun.judge.row import PER_GPU, gpus_of, shared_out
from unit.judge.specs import spec
from unit.judge.test_cost import measured, servers
from unit.measure.records import cell, record, requests


def test_gpus_of_every_role_share_the_throughput() -> None:
    held = gpus_of(servers(2, 0, 4))
    assert shared_out(measured(output_throughput=1000.0), held).metrics == {
        "output_throughput": 1000.0,
        PER_GPU: 166.67,
    }


@pytest.mark.parametrize("held", [servers(), servers(0, 0)])
def test_without_a_gpu_nothing_is_said(held: list[ServerStatus]) -> None:
    row = measured(output_throughput=1000.0)
    assert shared_out(row, gpus_of(held)) == row


@pytest.mark.parametrize("metrics", [{}, {"output_throughput": None}])
def test_of_an_unknown_throughput_so_is_its_share(metrics: dict[str, float | None]) -> None:
    assert shared_out(measured(**metrics), 2).metrics[PER_GPU] is None


def test_rows_of_a_run_have_it_beside_their_costs() -> None:
    """Ten tokens in ten seconds, by two roles of two GPUs each."""
    stage = record(requests=requests(output_tokens=(5, 5)), scalars={"duration": 10.0})
    for of_spec in (spec(), spec(cost={"perHour": "3600"})):
        [row] = results([cell()], [stage], [], spec=of_spec, servers=servers(2, 2)).results
        assert (row.metrics["output_throughput"], row.metrics[PER_GPU]) == (1.0, 0.25)
    assert row.metrics["cost_per_million_output_tokens"] == 1e6


def test_a_run_whose_servers_are_not_known_has_none() -> None:
    [row] = results([cell()], [record()], [], spec=spec(), servers=None).results
    assert PER_GPU not in row.metrics
