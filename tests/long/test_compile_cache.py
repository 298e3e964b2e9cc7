"""Real vLLM finds what it compiled before: a second server uses what the first left on the claim.

vLLM 0.32 for CPUs can't load the whole that it kept ("'function' object has no attribute
'finalize_loading'"): it traces the model again, and takes the kernels from the claim. Its log says
that it compiled, and so does the status.
"""

import pytest
from kit.examples import example, measured
from kit.kubectl import RUN, Namespace, Object

pytestmark = pytest.mark.timeout(2400)

CLAIM = "compiled"
SECOND_PART = 0.7
"""The second start's warm-up takes less than this part of the first one's (seen: a half)."""


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


def test_a_second_start_takes_its_kernels_from_the_claim(
    namespace: Namespace,
) -> None:
    namespace.apply(_claim())
    first = _startup(namespace, "first")
    namespace.kubectl("delete", RUN, "first", "--wait=true")
    second = _startup(namespace, "second")
    print(f"first: {first}\nsecond: {second}")
    assert (first["compiled"], second["compiled"]) == ("Cold", "Cold")
    assert second["warmUpSeconds"] < SECOND_PART * first["warmUpSeconds"]
