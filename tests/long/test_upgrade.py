"""Runs go on while the operator is upgraded and rolled back under them.

The other release is the last tag or, where there is none, what stood before the contract between
operator and client was last raised: built, installed and upgraded as users do it, kinds included.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.conftest import in_a_namespace, install
from kit.exactly_once import assert_nothing_was_lost_or_done_twice
from kit.installed import HELM_FLAGS, HOME, SELECTOR
from kit.kubectl import RUN, Namespace, Object, command
from kit.runs import OF_A_BUSY_MACHINE, is_finished, simulated_run

ROOT = Path(__file__).parents[2]
CHART = "charts/benchrun"
CONTRACT_FILE = "client-image/benchrun_client/contract/record_delivery.py"
RELEASE_BEFORE = "0.0.0-before"

pytestmark = pytest.mark.timeout(2400)


@dataclass(frozen=True)
class Release:
    """A chart, and the images that belong to it."""

    chart: Path
    operator: str
    client: str

    def install(self) -> None:
        """Install this release, or upgrade to it."""
        images = {"image": self.operator, "clientImage": self.client}
        named = []
        for value, image in images.items():
            repository, _, tag = image.rpartition(":")
            named += [f"--set={value}.repository={repository}"]
            named += [f"--set-string={value}.tag={tag}"]
        command(
            *("helm", "upgrade", "--install", "benchrun", str(self.chart)),
            *(f"--namespace={HOME.name}", "--create-namespace"),
            # Other tests apply the kinds themselves.
            *("--take-ownership", "--force-conflicts"),
            *("--wait", "--timeout=5m", *named, *HELM_FLAGS.split()),
            timeout_seconds=360,
        )
        self.is_there()

    def is_there(self) -> None:
        """Check that the operator is of this release, and no other runs."""
        HOME.kubectl(
            *("rollout", "status", "deployment", f"--selector={SELECTOR}"),
            "--timeout=180s",
            timeout_seconds=200,
        )
        (deployment,) = HOME.list("deployments", selector=SELECTOR)
        assert image(deployment) == self.operator


def image(workload: Object) -> str:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: str = container["image"]
    return found


def git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def earlier() -> str:
    """The commit of the other release."""
    changed = ("log", "--first-parent", "-1", "--format=%H", "-GContractVersion = ")
    return (
        os.environ.get("UPGRADE_FROM")
        or git("describe", "--tags", "--abbrev=0", "HEAD^")
        or git("rev-parse", git(*changed, "--", CONTRACT_FILE) + "^")
    )


def devcluster(*words: str | Path) -> None:
    subprocess.run([sys.executable, "devcluster", *words], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The other release, its images in the cluster."""
    folder = tmp_path_factory.mktemp("before")
    archive = folder / "source.tar"
    # With the rights that files have in a checkout, layers that are there already are taken.
    packed = ("-c", "tar.umask=0022", "archive", f"--output={archive}", earlier())
    subprocess.run(["git", *packed], cwd=ROOT, check=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    images = {
        name: f"docker.io/benchrun/{name}:before" for name in ("operator", "client")
    }
    dockerfiles = {"operator": "Dockerfile", "client": "client-image/Dockerfile"}
    for name, image in images.items():
        devcluster(
            *("build", f"--tag={image}", f"--build-arg=VERSION={RELEASE_BEFORE}"),
            *("--file", folder / dockerfiles[name], folder),
        )
    yield Release(folder / CHART, images["operator"], images["client"])
    # Any cluster that is brought up later would be given all that was built here.
    devcluster("remove", *images.values())


@pytest.fixture(scope="module")
def now() -> Release:
    """This checkout, as `make install` installs it."""
    operator, client = (
        os.environ.get(f"{name.upper()}_IMAGE", f"docker.io/benchrun/{name}:dev")
        for name in ("operator", "client")
    )
    return Release(ROOT / CHART, operator, client)


@pytest.fixture(scope="module")
def nothing_installed() -> Iterator[None]:
    """A cluster without operator; the one from this checkout is back afterwards."""
    command(
        *("helm", "uninstall", "benchrun", f"--namespace={HOME.name}"),
        *("--no-hooks", "--ignore-not-found", "--wait"),
    )
    try:
        yield
    finally:
        install()


def begun(namespace: Namespace) -> None:
    """Start a run of four stages that take some three minutes, and wait for its first record."""
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 32}},
        "load": {"concurrencies": [1, 2]},
        "requests": 70,
    }
    slow = ("--sim-ttft-ms=100", "--sim-tpot-ms=20")
    cold = {"code": "ColdStart", "severity": "Note"}
    noted = {"severities": [*OF_A_BUSY_MACHINE, cold]}
    namespace.apply(
        simulated_run(
            "through", args=slow, workloads=[workload], repeats=2, validity=noted
        )
    )
    namespace.wait_for(
        RUN,
        "through",
        lambda run: stages_done(run) >= 1,
        timeout_seconds=180,
        what="begun",
    )


def stages_done(run: Object) -> int:
    done: int = run.get("status", {}).get("progress", {}).get("stagesDone", 0)
    return done


def is_in_the_middle(namespace: Namespace) -> None:
    run = namespace.get(RUN, "through")
    assert not is_finished(run), "the run ended before the release was another"
    active = subprocess.run(
        [
            *(sys.executable, "-m", "benchrun.cli", "get", "--active"),
            *("-o", "name", "-n", namespace.name),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert active.stdout == f"{RUN}/through\n"


def ends_well(namespace: Namespace, *, client: str) -> Object:
    """Check that the run ended as if nothing had happened, with the client it was begun with."""
    status = assert_nothing_was_lost_or_done_twice(namespace, "through")
    assert status["verdict"] == "Valid", status["findings"]
    (job,) = namespace.list("jobs")
    assert image(job) == client
    return status


def kinds_of(release: Release) -> str:
    return (release.chart / "files/benchmarkruns.benchrun.dev.yaml").read_text()


def kinds() -> str:
    """Return the definition of runs in the cluster."""
    name = "customresourcedefinition/benchmarkruns.benchrun.dev"
    return command("kubectl", "get", name, "--output=jsonpath={.spec}")


@pytest.mark.usefixtures("nothing_installed")
def test_runs_go_on_through_an_upgrade_and_the_way_back(
    before: Release, now: Release
) -> None:
    """One is begun under each release, and the other takes over in mid-run."""
    before.install()
    earlier_kinds = kinds()
    with in_a_namespace() as older, in_a_namespace() as newer:
        begun(older)
        now.install()
        assert (kinds() != earlier_kinds) == (kinds_of(before) != kinds_of(now))
        is_in_the_middle(older)
        begun(newer)
        command(
            *("helm", "rollback", "benchrun", f"--namespace={HOME.name}"),
            *("--wait", "--timeout=5m"),
            timeout_seconds=360,
        )
        before.is_there()
        assert kinds() == earlier_kinds
        is_in_the_middle(newer)
        ends_well(older, client=before.client)
        ends_well(newer, client=now.client)
