"""A run held against another: the condition that a pipeline gates on is True for an equal server,
if one is enough, and False for a slower one."""

from typing import Any

import pytest
from kit.kubectl import Namespace, Object
from kit.runs import condition, finished, simulated_run

MAX_REGRESSION_PERCENT = 30


def measured(
    namespace: Namespace, name: str, *, token_ms: int, **spec: Any
) -> Object:
    """A run of two users against a server that takes 40 ms for the first token and so long for each
    of 15 more."""
    workload = {
        "name": "users",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [2]},
        "requests": 60,
    }
    args = ("--sim-ttft-ms=40", f"--sim-tpot-ms={token_ms}")
    namespace.apply(
        simulated_run(name, args=args, workloads=[workload], repeats=3, **spec)
    )
    run = finished(namespace, name, timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    return run


@pytest.mark.timeout(600)
def test_an_equal_server_has_not_regressed_and_a_slower_one_has(
    namespace: Namespace,
) -> None:
    before = measured(namespace, "before", token_ms=10)
    baseline = {
        "name": "before",
        "maxRegressionPercent": str(MAX_REGRESSION_PERCENT),
        "metrics": ["OutputThroughput", "MeanE2EL"],
        "oneServerIsEnough": True,
    }
    equal = measured(namespace, "equal", token_ms=10, baseline=baseline)
    slower = measured(namespace, "slower", token_ms=20, baseline=baseline)

    assert condition(before, "NotRegressed") == {}
    assert condition(equal, "NotRegressed")["status"] == "True", equal["status"][
        "comparison"
    ]
    assert condition(slower, "NotRegressed")["status"] == "False", slower["status"][
        "comparison"
    ]
    for run, gate in ((equal, "NotRegressedHere"), (slower, "RegressedHere")):
        comparison = run["status"]["comparison"]
        assert comparison["gate"] == run["status"]["answer"] == gate
        assert comparison["baseline"]["uid"] == before["metadata"]["uid"]
        (load_point,) = comparison["loadPoints"]
        assert load_point["paired"], "equal seeds send equal traffic"
    # An answer takes 190 ms, and then 340: 79 % longer, and 44 % fewer tokens a second.
    changes = {
        change["metric"]: change
        for change in slower["status"]["comparison"]["loadPoints"][0]["changes"]
    }
    assert changes["MeanE2EL"]["changePercent"] == pytest.approx(79, abs=15)
    assert changes["OutputThroughput"]["changePercent"] == pytest.approx(
        -44, abs=10
    )
    assert all(change["word"] == "Worse" for change in changes.values())
