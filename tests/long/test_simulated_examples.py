"""The examples on simulated servers answer what their own comments say is true."""

import pytest
from e2e.conftest import in_a_namespace
from kit.examples import example, measured, on_a_busy_machine
from kit.kubectl import Namespace, Object

SECONDS = 1200.0
pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(scope="module")
def statuses(operator: Namespace) -> dict[str, Object]:
    """Return the status of each, measured one after the other: they would disturb each other."""
    found = {}
    with in_a_namespace() as namespace:
        for kind, name in (
            ("BenchmarkRun", "search-simulator"),
            ("BenchmarkSweep", "sweep-simulator"),
        ):
            body = example(f"{name}.yaml")[name]
            namespace.apply(on_a_busy_machine(body))
            found[name] = measured(namespace, kind, name, timeout_seconds=SECONDS)
    return found


def test_the_search_finds_how_many_users_and_arrivals_keep_the_objective(
    statuses: dict[str, Object],
) -> None:
    searches = {each["workload"]: each for each in statuses["search-simulator"]["searches"]}
    assert searches["users"]["lower"] == "8", searches
    # By queueing theory (M/D/8) the limit is kept up to 30.6 a second.
    assert 27.5 <= float(searches["arrivals"]["lower"]) <= 31, searches


def test_the_sweep_names_one_variant_for_both_questions_and_one_point(
    statuses: dict[str, Object],
) -> None:
    status = statuses["sweep-simulator"]
    assert [(each["objective"], each["variant"]) for each in status["best"]] == [
        ("throughput", "seqs=16"),
        ("TTFT p95 <= 500 ms", "seqs=16"),
    ]
    assert [point["variant"] for point in status["front"]] == ["seqs=16"]
