"""Where a process stands: by its arguments and its pod's index."""

from __future__ import annotations

import pytest
from benchrun_client.shards.first import IN_THE_POD, shard_setup
from benchrun_client.shards.sharing import Shard

FIRST = "run-0.run.lab.svc:8091"


@pytest.mark.parametrize(
    ("index", "place", "siblings"),
    [("0", Shard(0, 7), (1, 2)), ("1", Shard(3, 7), (4, 5)), ("2", Shard(6, 7), ())],
)
def test_the_pods_index_tells_its_shards(index: str, place: Shard, siblings: tuple[int, ...]) -> None:
    setup = shard_setup(shards=7, processes=3, shard=None, gate=FIRST, environment={"JOB_COMPLETION_INDEX": index})
    assert setup.shard == place
    assert setup.siblings == siblings


def test_a_process_that_is_told_its_shard_starts_no_others() -> None:
    setup = shard_setup(shards=4, processes=4, shard=2, gate=IN_THE_POD, environment={"JOB_COMPLETION_INDEX": "3"})
    assert (setup.shard, setup.siblings) == (Shard(2, 4), ())


def test_outside_of_a_job_it_is_the_first() -> None:
    assert shard_setup(shards=1, processes=1, shard=None, gate=IN_THE_POD, environment={}).shard.is_first


@pytest.mark.parametrize(("gate", "address", "port"), [(IN_THE_POD, "127.0.0.1", 8091), (FIRST, "0.0.0.0", 8091)])
def test_the_gate_is_open_to_other_pods_only_where_there_are_any(gate: str, address: str, port: int) -> None:
    setup = shard_setup(shards=2, processes=1, shard=None, gate=gate, environment={})
    assert (setup.gate_address, setup.gate_port) == (address, port)
