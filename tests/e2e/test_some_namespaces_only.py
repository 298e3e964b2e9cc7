"""An operator with rights in one namespace and nowhere else, as docs/install.md installs it: it
works there and only there."""

from collections.abc import Iterator

import pytest
from e2e.conftest import in_a_namespace
from kit.installed import installed_for
from kit.kubectl import RUN, CommandFailed, Namespace
from kit.runs import condition, finished, simulated_run


@pytest.fixture
def team(operator: Namespace, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with an operator of its own, while the one for the whole cluster is away."""
    with installed_for(namespace):
        yield namespace


@pytest.fixture
def neighbour() -> Iterator[Namespace]:
    """A namespace of somebody else."""
    with in_a_namespace() as made:
        yield made


@pytest.mark.timeout(400)
def test_an_operator_for_one_namespace_measures_there_and_touches_no_other(
    team: Namespace, neighbour: Namespace
) -> None:
    neighbour.apply(simulated_run("theirs"))
    team.apply(simulated_run("ours"))
    run = finished(team, "ours", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert run["status"]["results"][0]["metrics"]["completed"] == 8

    assert neighbour.get(RUN, "theirs")["status"] == {"observedGeneration": -1}
    log = team.kubectl("logs", "deployment/team-benchrun", "--tail=-1")
    assert "ours" in log
    assert "forbidden" not in log.lower()
    account = f"system:serviceaccount:{team.name}:team-benchrun"
    assert (
        team.kubectl("auth", "can-i", "list", "pods", f"--as={account}").strip()
        == "yes"
    )
    with pytest.raises(CommandFailed):
        neighbour.kubectl("auth", "can-i", "list", "pods", f"--as={account}")
