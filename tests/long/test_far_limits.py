"""Real vLLM: what is far from its limit is decided, Met and Missed, by the users of the quickstart."""

import pytest
from kit.examples import example, measured
from kit.kubectl import Namespace

pytestmark = pytest.mark.timeout(1800)

FAR_ABOVE = {"metric": "TTFT", "percentile": "90", "maxMilliseconds": 60_000}
FAR_BELOW = {"metric": "E2EL", "percentile": "50", "maxMilliseconds": 100}


def test_what_is_far_from_its_limit_is_decided(namespace: Namespace) -> None:
    run = example("quickstart.yaml")["quickstart"]
    of = run["spec"]
    (users,) = (each for each in of["workloads"] if each["name"] == "users")
    of["workloads"] = [users]
    of["objectives"] = [FAR_ABOVE, FAR_BELOW]
    namespace.apply(run)
    status = measured(namespace, "BenchmarkRun", "quickstart", timeout_seconds=1500)
    told = {
        row["loadPoint"]: [each["outcome"] for each in row["objectives"]]
        for row in status["results"]
    }
    assert told == {
        "users/concurrency=4": ["Met", "Missed"],
        "users/concurrency=8": ["Met", "Missed"],
    }
    assert status["answer"] == "Missed"
