"""Real vLLM compiles its model once: a second server finds what the first left on the claim."""

import pytest
from kit.examples import example, measured
from kit.kubectl import RUN, Namespace, Object

pytestmark = pytest.mark.timeout(2400)

CLAIM = "compiled"
WARM_PART = 0.5
"""The second start's warm-up takes less than this part of the first one's."""


def _claim() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _compiled_run(name: str) -> Object:
    run = example("quickstart.yaml")["quickstart"]
    run["metadata"]["name"] = name
    spec = run["spec"]
    spec["server"]["compileCacheClaim"] = CLAIM
    spec["server"]["args"].remove("--enforce-eager")
    spec["workloads"] = spec["workloads"][1:]
    spec["workloads"][0] |= {"load": {"concurrencies": [2]}, "requests": 8}
    spec["repeats"] = 1
    return run


def _startup(namespace: Namespace, name: str) -> Object:
    namespace.apply(_compiled_run(name))
    (server,) = measured(namespace, "BenchmarkRun", name, timeout_seconds=1100)[
        "servers"
    ]
    startup: Object = server["startup"]
    return startup


def test_the_second_start_of_a_server_compiles_nothing(
    namespace: Namespace,
) -> None:
    namespace.apply(_claim())
    cold = _startup(namespace, "cold")
    namespace.kubectl("delete", RUN, "cold", "--wait=true")
    warm = _startup(namespace, "warm")
    print(f"cold: {cold}\nwarm: {warm}")
    assert (cold["compiled"], warm["compiled"]) == ("Cold", "Warm")
    assert warm["warmUpSeconds"] < WARM_PART * cold["warmUpSeconds"]
