"""Real vLLM: the questions of people who were misled by their own numbers, each answered by the
result itself, though the operator is killed while the server loads. That the same prompts come from
the cache and new ones do not, is shown in tests/long."""

from collections.abc import Iterator
from typing import Any

import pytest
from e2e.conftest import in_a_namespace
from kit.exactly_once import REPEATS, assert_nothing_was_lost_or_done_twice
from kit.installed import SELECTOR
from kit.kubectl import RUN, Namespace, Object
from kit.processes import kill_container
from kit.runs import VLLM_IMAGE, phase, simulated_run

pytestmark = pytest.mark.timeout(600)

SERVER = {
    "image": VLLM_IMAGE,
    "args": ["--max-model-len=4096", "--max-num-seqs=2", "--enforce-eager"],
    # Leaves a core to measure with.
    "env": [{"name": "VLLM_CPU_OMP_THREADS_BIND", "value": "0"}],
    "resources": {
        "limits": {"cpu": "1", "memory": "6Gi"},
        "requests": {"cpu": "500m", "memory": "3Gi"},
    },
}
WORKLOADS = [
    {
        "name": "ends-early",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 512}},
        "load": {"concurrencies": [2]},
        "requests": 12,
        "ignoreEOS": False,
        "sampling": {
            "temperature": "1"
        },  # Chosen greedily, the words of a model without sense go round in circles.
    },
    {
        "name": "crowd",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 64}},
        "load": {"concurrencies": [8]},
        "requests": 80,
    },
]


@pytest.fixture(scope="module")
def status(operator: Namespace) -> Iterator[Object]:
    """Of the run, once it has ended, with nothing lost to the kill and nothing done twice."""
    with in_a_namespace() as namespace:
        namespace.apply(
            simulated_run(
                "questions", server=SERVER, workloads=WORKLOADS, repeats=REPEATS
            )
        )
        loading = namespace.wait_for(
            RUN,
            "questions",
            lambda run: phase(run) == "Starting",
            timeout_seconds=200,
            what="starting",
        )
        kill_container(operator, selector=SELECTOR)
        assert "serverReadyTime" not in loading["status"]
        yield assert_nothing_was_lost_or_done_twice(namespace, "questions")


def finding(status: Object, code: str) -> Object | None:
    return next(
        (found for found in status["findings"] if found["code"] == code), None
    )


def row(status: Object, load_point: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        row for row in status["results"] if row["loadPoint"] == load_point
    )
    return found


def test_answers_that_end_before_what_was_asked_are_named(status: Object) -> None:
    short = finding(status, "OutputTooShort")
    assert short is not None, status["findings"]
    assert short["worstStage"].startswith("ends-early/")
    assert short["severity"] in ("Suspect", "Invalid")
    assert (
        0
        < short["evidence"]["meanOutputTokens"]
        < 0.95 * short["evidence"]["askedTokens"]
    )
    assert "OutputTooShort" not in row(status, "crowd/concurrency=8")["findings"]


def test_the_sequence_limit_is_named_where_more_users_wait_than_are_served(
    status: Object,
) -> None:
    crowd = row(status, "crowd/concurrency=8")
    assert crowd["verdict"] in ("Valid", "Suspect"), crowd
    assert crowd["waiting"]["reason"] == "SequenceLimit", crowd["waiting"]
    assert crowd["bottleneck"]["limit"] == "SequenceLimit", crowd["bottleneck"]
    assert "2" in crowd["waiting"]["sentence"]
