"""The search on a simulated server answers what its own comments say is true."""

import pytest
from e2e.conftest import in_a_namespace
from kit.examples import example, measured
from kit.kubectl import Namespace, Object

NAME = "search-simulator"
SECONDS = 2400.0
pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(scope="module")
def searches(operator: Namespace) -> dict[str, Object]:
    """Return the searches of the run by their workload, once it has ended."""
    with in_a_namespace() as namespace:
        namespace.apply(example(f"{NAME}.yaml")[NAME])
        status = measured(namespace, "BenchmarkRun", NAME, timeout_seconds=SECONDS)
    return {each["workload"]: each for each in status["searches"]}


def test_it_finds_how_many_users_keep_the_objective(
    searches: dict[str, Object],
) -> None:
    assert searches["users"]["lower"] == "8", searches


def test_it_finds_how_many_arrivals_keep_the_objective(
    searches: dict[str, Object],
) -> None:
    """By queueing theory (M/D/8) up to 30.6 a second do."""
    assert 27.5 <= float(searches["arrivals"]["lower"]) <= 31, searches
