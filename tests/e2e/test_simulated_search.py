"""The search of users in the example answers what its own comments say is true.

Its search of arrivals takes a quarter of an hour: `tests/long` runs the whole example.
"""

import pytest
from e2e.conftest import in_a_namespace
from kit.examples import example, measured
from kit.kubectl import Namespace

NAME = "search-simulator"
SECONDS = 900.0
pytestmark = pytest.mark.timeout(2 * SECONDS)


def test_it_finds_how_many_users_keep_the_objective(operator: Namespace) -> None:
    run = example(f"{NAME}.yaml")[NAME]
    of = run["spec"]
    of["workloads"] = [each for each in of["workloads"] if each["name"] == "users"]
    with in_a_namespace() as namespace:
        namespace.apply(run)
        status = measured(namespace, "BenchmarkRun", NAME, timeout_seconds=SECONDS)
    (found,) = status["searches"]
    assert found["lower"] == "8", found
