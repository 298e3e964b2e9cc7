"""Real vLLM: a run with a profile, and the same run without one, whose figures are the same."""

import json

import pytest
from kit.examples import benchrun, example, measured, rows
from kit.kubectl import Namespace
from kit.runs import merged

pytestmark = pytest.mark.timeout(2400)

RUN = "BenchmarkRun"


def test_a_profile_names_kernels_and_leaves_the_figures_alone(
    namespace: Namespace,
) -> None:
    profiled = merged(
        example("profile-tiny.yaml")["profiled"], {"spec": {"repeats": 3}}
    )
    plain = merged(
        profiled,
        {"metadata": {"name": "plain"}, "spec": {"measurement": {"profile": None}}},
    )
    # One after the other: two servers on two cores would be each other's noise.
    statuses = {}
    for name, body in (("plain", plain), ("profiled", profiled)):
        namespace.apply(body)
        statuses[name] = measured(namespace, RUN, name, timeout_seconds=1100)
    profile = statuses["profiled"]["profile"]
    shares = profile["kernels"]
    evidence = profile["evidence"]
    assert len(shares) >= 3, profile
    assert 50 < sum(shares.values()) <= 100.1
    assert (evidence["device"], evidence["workload"]) == ("CPU", "chat")
    assert 0.5 < evidence["windowSeconds"] < 4
    assert evidence["steps"] > 10
    assert 0 <= evidence["hostPercent"] <= 100
    assert "profile" not in statuses["plain"]

    # Nothing that is measured knows of it: the same load points, prompts and, within their
    # intervals, figures.
    before = rows(statuses["plain"])
    after = rows(statuses["profiled"])
    assert {load_point: row["traffic"] for load_point, row in before.items()} == {
        load_point: row["traffic"] for load_point, row in after.items()
    }
    compared = json.loads(
        benchrun(namespace, "compare", "plain", "profiled", "--output=json").text
    )
    words = {
        load_point["loadPoint"]: {
            change["word"] for change in load_point["changes"]
        }
        for load_point in compared["loadPoints"]
    }
    assert words.keys() == before.keys()
    assert set().union(*words.values()) <= {
        "NoDetectableDifference",
        "Equivalent",
    }, compared

    said = benchrun(namespace, "report", "profiled")
    (largest,) = said.table("kernel", "% of kernel time")[:1]
    assert largest["kernel"] == max(shares, key=lambda name: shares[name])
