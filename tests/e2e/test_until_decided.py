"""Repeats go on until the objective is decided, as the example's own comments say."""

import pytest
from e2e.conftest import in_a_namespace
from kit.examples import example, measured
from kit.kubectl import Namespace, Object

NAME = "until-decided-simulator"
SECONDS = 600.0
pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(scope="module")
def status(operator: Namespace) -> Object:
    """Return the status of the run, once it has ended."""
    with in_a_namespace() as namespace:
        namespace.apply(example(f"{NAME}.yaml")[NAME])
        return measured(namespace, "BenchmarkRun", NAME, timeout_seconds=SECONDS)


def test_everything_is_decided_before_the_budget_ends(status: Object) -> None:
    found = status["untilDecided"]
    assert (found["outcome"], found.get("undecided", [])) == ("Decided", [])
    assert found["requests"] + found["requestsSaved"] == 6_000
    assert found["stages"] == status["progress"]["stagesTotal"]
    outcomes = {
        (row["value"], objective["outcome"])
        for row in status["results"]
        for objective in row["objectives"]
    }
    assert outcomes == {("4", "Met"), ("16", "Met")}


def test_only_what_is_near_its_limit_is_repeated(status: Object) -> None:
    repeats = {row["value"]: row["repeats"] for row in status["results"]}
    assert repeats["4"] < 3 <= repeats["16"], repeats
