"""An operator with rights in one namespace and nowhere else, as docs/install.md installs it: it
works there and only there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.conftest import in_a_namespace
from kit.installed import taken_away
from kit.kubectl import RUN, CommandFailed, Namespace, command
from kit.runs import condition, finished, simulated_run

CHART = Path(__file__).parents[2] / "charts/benchrun"


def image(name: str) -> str:
    """Helm's settings for the image of that variable."""
    repository, _, tag = os.environ.get(
        f"{name.upper()}_IMAGE", f"docker.io/benchrun/{name}:dev"
    ).rpartition(":")
    values = {"operator": "image", "client": "clientImage"}[name]
    return f"--set={values}.repository={repository},{values}.tag={tag}"


@pytest.fixture
def team(operator: Namespace, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with an operator of its own, while the one for the whole cluster is away."""
    where = (f"--namespace={namespace.name}", "--wait", "--timeout=2m")
    scope = "rbac.scope=namespace,rbac.aggregateRoles=false,crds.enabled=false"
    with taken_away():
        command(
            "helm",
            "install",
            "team",
            str(CHART),
            *where,
            f"--set={scope}",
            image("operator"),
            image("client"),
        )
        yield namespace
        command("helm", "uninstall", "team", "--no-hooks", *where)


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
