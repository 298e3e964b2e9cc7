"""No operator runs, and a server has been held longer than it may be: somebody else lets go of
it."""

import pytest
from kit.hostile_runs import LOADS_FOR_EVER, hostile_program, hostile_run
from kit.installed import HOME, INSTALLED, taken_away
from kit.kubectl import RUN, Namespace, Object
from kit.polling import polling
from kit.runs import children_selector

HOLD = "benchrun.dev/hold-seconds"
STARTUP_SECONDS = 600
RUN_SECONDS = 300
MARGIN_SECONDS = 60
LET_GO_SECONDS = 60.0


def _servers(run: Object) -> str:
    return f"{children_selector(run)},benchrun.dev/role=server"


def _release(number: int) -> None:
    """What the CronJob does, at once."""
    jobs = HOME.list("cronjobs", selector=INSTALLED)
    assert jobs, "the chart has no CronJob that lets go of servers"
    name = f"release-{number}"
    HOME.delete("job", name)
    HOME.kubectl(
        "create", "job", name, f"--from=cronjob/{jobs[0]['metadata']['name']}"
    )
    HOME.kubectl("wait", f"job/{name}", "--for=condition=Complete", "--timeout=60s")
    HOME.delete("job", name)


@pytest.mark.timeout(300)
def test_a_server_held_too_long_is_released_while_no_operator_runs(
    operator: Namespace, namespace: Namespace
) -> None:
    limits = {
        "startupDeadlineSeconds": STARTUP_SECONDS,
        "runDeadlineSeconds": RUN_SECONDS,
    }
    runs = (
        hostile_run(name, args=(LOADS_FOR_EVER,), **limits)
        for name in ("held", "control")
    )
    namespace.apply(hostile_program(), *runs)
    held = namespace.get(RUN, "held")
    control = namespace.get(RUN, "control")
    for _ in polling("both servers have their pods", seconds=120):
        pods = [
            pod
            for run in (held, control)
            for pod in namespace.list("pods", selector=_servers(run))
        ]
        if len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods):
            break
    with taken_away():
        deployment = namespace.list("deployments", selector=_servers(held))[0][
            "metadata"
        ]
        hold = int(deployment.get("annotations", {}).get(HOLD, "0"))
        # Not waited for: the test says instead that the time is over.
        namespace.kubectl(
            "annotate", "--overwrite", "deployment", deployment["name"], f"{HOLD}=1"
        )
        for number, _ in enumerate(
            polling("the server is let go", seconds=LET_GO_SECONDS)
        ):
            _release(number)
            there = namespace.list("deployments", selector=_servers(held))
            if all("deletionTimestamp" in each["metadata"] for each in there):
                break
        namespace.wait_gone("pods", selector=_servers(held), timeout_seconds=30)
        assert namespace.list("deployments", selector=_servers(control)), (
            "nor may it let go of what is not late"
        )
        about = [
            e
            for e in namespace.list("events")
            if e["involvedObject"]["name"] in ("held", deployment["name"])
        ]
        assert "ServerReleased" in {event["reason"] for event in about}
    assert hold == STARTUP_SECONDS + RUN_SECONDS + MARGIN_SECONDS
