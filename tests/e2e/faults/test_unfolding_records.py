"""A run whose client image serves records that unfold beyond the operator's memory ends alone: no
other tenant notices."""

import pytest
from kit.hostile_runs import LOADS_FOR_EVER, hostile_program, hostile_run
from kit.installed import SELECTOR
from kit.kubectl import RUN, Namespace, Object
from kit.polling import polling
from kit.runs import children_selector, is_finished, simulated_run

NOTICED_SECONDS = 5.0
ENDED_SECONDS = 90.0


def _restarts(operator: Namespace) -> dict[str, int]:
    """Of each operator pod; a pod that is replaced counts as well."""
    pods = operator.list("pods", selector=SELECTOR)
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0][
            "restartCount"
        ]
        for pod in pods
    }


@pytest.mark.timeout(240)
def test_records_that_unfold_do_not_kill_the_operator(
    operator: Namespace, namespace: Namespace
) -> None:
    before = _restarts(operator)
    # The control's client would do the same, but its server never answers.
    namespace.apply(
        hostile_program(),
        hostile_run("control", args=(LOADS_FOR_EVER,)),
        hostile_run("bomb"),
    )
    run: Object = {}
    for _ in polling("the run with the bomb has ended", seconds=ENDED_SECONDS):
        assert _restarts(operator) == before, "the operator was killed"
        if is_finished(run := namespace.get(RUN, "bomb")):
            break
    assert run["status"].get("verdict") not in ("Valid", "Suspect"), run["status"]
    namespace.wait_gone(
        "pods",
        selector=f"{children_selector(run)},benchrun.dev/role=server",
        timeout_seconds=30,
    )

    namespace.apply(simulated_run("later"))
    later = children_selector(namespace.get(RUN, "later"))
    for _ in polling("another run has its client", seconds=NOTICED_SECONDS):
        if namespace.list("jobs", selector=later):
            break
    assert not is_finished(namespace.get(RUN, "control"))
    assert _restarts(operator) == before
