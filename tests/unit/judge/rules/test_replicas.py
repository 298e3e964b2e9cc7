"""Several servers: requests spread at random, and names that are too long."""

import random
from collections import Counter

import pytest
from benchrun.judge.rules.replicas import load_uneven, replicas_unequal
from benchrun.judge.rules.rule import StageFinding
from unit.judge.stages import context, findings
from unit.measure.records import edge, record

FINISHED = "request_success_total"


def test_long_names_have_equal_room() -> None:
    servers = [
        edge(each).model_copy(update={"models": each * 300}) for each in ("a", "b")
    ]
    (found,) = findings(replicas_unequal(context()(record(servers=tuple(servers)))))
    assert found.evidence["modelsNamed"] == f"{'a' * 100}; {'b' * 100}"


def uneven(*finished: float) -> list[StageFinding]:
    servers = tuple(
        edge(f"s{n}", rises={FINISHED: each}) for n, each in enumerate(finished)
    )
    return findings(load_uneven(context()(record(servers=servers))))


@pytest.mark.parametrize("servers", [2, 3, 8])
@pytest.mark.parametrize("requests", [16, 100, 1000])
def test_requests_spread_at_random_are_not_uneven(
    servers: int, requests: int
) -> None:
    draw = random.Random(f"{servers}/{requests}")
    for _ in range(300):
        counts = Counter(draw.randrange(servers) for _ in range(requests))
        assert uneven(*(float(counts[n]) for n in range(servers))) == []
