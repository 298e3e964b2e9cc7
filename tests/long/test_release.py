"""A release, made as it is published, installs from its own files alone, measures, and says its version."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from e2e.conftest import ROOT, in_a_namespace
from kit.image_archive import image_name
from kit.installed import HOME, SELECTOR
from kit.kubectl import Object, command
from kit.release_files import IMAGES, VERSION, installed_command
from kit.runs import condition, finished, simulated_run

pytestmark = pytest.mark.timeout(3000)


@pytest.fixture(scope="module")
def dist(release: Path) -> Path:
    """The files of a release, its images loaded into the cluster."""
    for name in IMAGES:
        archive = release / f"{name}-{VERSION}.oci.tar"
        assert image_name(archive) == IMAGES[name]
        subprocess.run(
            [sys.executable, "devcluster", "load-archive", archive],
            cwd=ROOT,
            check=True,
        )
    return release


def measure_with_the_release() -> None:
    """Measure a simulated server, with the release's operator and client."""
    HOME.kubectl(
        *("rollout", "status", "deployment", f"--selector={SELECTOR}"),
        "--timeout=180s",
        timeout_seconds=200,
    )
    with in_a_namespace() as namespace:
        namespace.apply(simulated_run("released"))
        run = finished(namespace, "released", timeout_seconds=300)
        assert condition(run, "Complete")["status"] == "True", run["status"]
        assert run["status"]["results"][0]["metrics"]["completed"] == 8
        clients = namespace.list("jobs")
        assert {image(each) for each in clients} == {IMAGES["client"]}
    deployments = HOME.list("deployments", selector=SELECTOR)
    assert {image(each) for each in deployments} == {IMAGES["operator"]}


def image(workload: Object) -> str:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: str = container["image"]
    return found


def test_every_file_has_its_checksum(dist: Path) -> None:
    command("sh", "-c", f"cd {dist} && sha256sum --check --strict SHA256SUMS")
    listed = (dist / "SHA256SUMS").read_text().splitlines()
    names = {line.split("  ")[1] for line in listed}
    assert names == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    assert (dist / "images.txt").read_text().split() == list(IMAGES.values())


@pytest.mark.usefixtures("cleared")
def test_the_chart_installs_without_a_value_and_the_command_tells_both_versions(
    dist: Path, tmp_path: Path
) -> None:
    command(
        *("helm", "install", "benchrun", str(dist / f"benchrun-{VERSION}.tgz")),
        *(f"--namespace={HOME.name}", "--create-namespace", "--wait"),
        *("--take-ownership", "--force-conflicts", "--timeout=3m"),
        timeout_seconds=200,
    )
    measure_with_the_release()
    told = command(str(installed_command(dist, tmp_path)), "--version")
    own, operator = told.splitlines()
    assert own == f"benchrun {VERSION}"
    assert operator.startswith(f"operator {VERSION} ")
    assert IMAGES["operator"] in operator


@pytest.mark.usefixtures("cleared")
def test_one_file_installs_with_kubectl_alone(dist: Path) -> None:
    file = dist / "install.yaml"
    command(
        *("kubectl", "apply", "--server-side", "--force-conflicts", "-f", str(file))
    )
    try:
        measure_with_the_release()
    finally:
        # Kinds stay, and with them what other tests have measured.
        others = [
            each
            for each in yaml.safe_load_all(file.read_text())
            if each["kind"] not in ("CustomResourceDefinition", "Namespace")
        ]
        command(
            *("kubectl", "delete", "--ignore-not-found", "-f", "-"),
            stdin=yaml.safe_dump_all(others),
        )


def test_the_plugin_runs_what_the_release_holds(dist: Path, tmp_path: Path) -> None:
    archive = dist / f"kubectl-benchrun-{VERSION}.tar.gz"
    command("tar", "--extract", f"--directory={tmp_path}", f"--file={archive}")
    done = subprocess.run(
        [tmp_path / "kubectl-benchrun", "--version"],
        env={**os.environ, "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines()[0] == f"benchrun {VERSION}"
