"""A run that is deleted and applied again under its name measures anew, whatever of the old one is
still there."""

import pytest
from kit.kubectl import RUN, Namespace
from kit.runs import finished, phase, simulated_run


@pytest.mark.timeout(600)
def test_the_next_run_of_a_name_gets_its_own_plan(namespace: Namespace) -> None:
    uids = set()
    long = simulated_run("again")
    # minutes, so that no look at it comes after its end
    long["spec"]["workloads"][0]["requests"] = 4000
    for _ in range(3):
        namespace.apply(long)
        # The old client's pod still mounts the old plan when the next one starts.
        run = namespace.wait_for(
            RUN,
            "again",
            lambda r: phase(r) == "Running",
            timeout_seconds=120,
            what="running, with a client that answers",
        )
        uids.add(run["metadata"]["uid"])
        namespace.delete(RUN, "again")
    namespace.apply(simulated_run("again"))
    run = finished(namespace, "again")
    assert phase(run) == "Completed", run["status"]
    assert (
        run["status"]["results"][0]["metrics"]["completed"] == 8
    )  # its own plan, not that of the runs before
    assert len(uids | {run["metadata"]["uid"]}) == 4
