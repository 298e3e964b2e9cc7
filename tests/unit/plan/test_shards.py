"""How many processes a spec wants, and in how many pods."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Division, division_of
from unit.plan.specs import Json, concurrencies, rates, spec_body, workload


def division(client: Json, *workloads: Json, **changes: Any) -> Division:
    body = spec_body(client=client, workloads=list(workloads) or [workload()], **changes)
    return division_of(BenchmarkRunSpec.model_validate(body))


@pytest.mark.parametrize(
    ("expected", "load"),
    [
        pytest.param(1, concurrencies(1, 150), id="150 streams are one's"),
        pytest.param(2, concurrencies(151, 8), id="one more is not"),
        pytest.param(16, concurrencies(100_000), id="there is an end"),
        pytest.param(1, rates("100"), id="100 requests a second are one's"),
        pytest.param(2, rates("100.5"), id="a fraction more is not"),
        pytest.param(3, rates("5", "250"), id="the highest counts"),
        pytest.param(2, rates("inf"), id="all at once: as many streams as requests"),
        pytest.param(1, {**rates("inf"), "maxConcurrency": 20}, id="under a cap: as many as may be under way"),
        pytest.param(1, {"search": {"axis": "RequestRate", "from": "1", "to": "900"}}, id="a search is one's"),
    ],
)
def test_auto_follows_the_highest_load(expected: int, load: Json) -> None:
    searched = (
        {"objectives": [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]} if "search" in load else {}
    )
    requests = 4000 if searched else 200
    assert division({"parallelism": "Auto"}, workload(load=load, requests=requests), **searched).shards == expected


def test_auto_follows_the_workload_that_needs_most() -> None:
    two = workload("few", load=concurrencies(4)), workload("many", load=concurrencies(400))
    assert division({"parallelism": "Auto"}, *two).shards == 3


@pytest.mark.parametrize(
    ("shards", "resources", "processes", "pods"),
    [
        (1, {}, 1, 1),
        (4, {}, 1, 4),
        (4, {"requests": {"cpu": "4"}}, 4, 1),
        (4, {"requests": {"cpu": 8}}, 4, 1),
        (5, {"requests": {"cpu": "2500m"}}, 2, 3),
        (4, {"requests": {"cpu": "900m"}}, 1, 4),
        (4, {"limits": {"cpu": "2"}}, 2, 2),
        (4, {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}, 1, 4),
        (4, {"requests": {"memory": "8Gi"}}, 1, 4),
        (4, {"requests": {"cpu": "2.9"}}, 2, 2),
    ],
)
def test_a_pod_holds_as_many_as_it_has_whole_cores(shards: int, resources: Json, processes: int, pods: int) -> None:
    found = division({"parallelism": shards, "resources": resources})
    assert (found.shards, found.processes, found.pods) == (shards, processes, pods)
