"""The sweep of simulated servers answers what its own comments say is true."""

import pytest
from e2e.conftest import in_a_namespace
from kit.examples import example, measured
from kit.kubectl import Namespace, Object

NAME = "sweep-simulator"
SECONDS = 900.0
pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(scope="module")
def status(operator: Namespace) -> Object:
    """Return the status of the sweep, once it has ended."""
    with in_a_namespace() as namespace:
        namespace.apply(example(f"{NAME}.yaml")[NAME])
        return measured(namespace, "BenchmarkSweep", NAME, timeout_seconds=SECONDS)


def test_it_names_one_variant_for_both_questions(status: Object) -> None:
    assert [(each["objective"], each["variant"]) for each in status["best"]] == [
        ("throughput", "seqs=16"),
        ("TTFT p95 <= 500 ms", "seqs=16"),
    ]


def test_its_front_is_one_point(status: Object) -> None:
    assert [point["variant"] for point in status["front"]] == ["seqs=16"]
