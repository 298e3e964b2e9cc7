"""A stranger's way, from the files of a release alone to a measured sweep, on a strict cluster.

The cluster has what a GPU user meets on the first day: restricted Pod Security, a policy that does
what OpenShift's `restricted-v2` does, a LimitRange, quotas, a label that pods must have, a private
registry with a pull secret, and a hub that only a proxy reaches. One values file says it all; of
manifests names are edited, and for two cores the amounts.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cluster.admission import create, refused_pod
from e2e.conftest import ROOT
from kit import image_registry, model_hub
from kit.examples import example
from kit.image_registry import Registry
from kit.kubectl import SWEEP, CommandFailed, Namespace, Object, command
from kit.model_hub import ProxyHandler, Shelf
from kit.polling import polling
from kit.release_files import VERSION, installed_command
from kit.restricted_scc import (
    UIDS,
    admission_policy,
    assigning_policy,
    requiring_label,
)
from kit.runs import SIMULATOR_IMAGE, condition, finished, is_finished
from kit.strict_namespace import POD_SECURITY, manifests
from kit.sweeps import runs_of

from devcluster.settings import from_environment

pytestmark = pytest.mark.timeout(3600)

NODE = from_environment(os.environ, home=Path.home(), here=ROOT)
SYSTEM = Namespace("stranger-system")
LAB = Namespace("stranger-lab")
LABEL = "cost-center"
SECRET = "mirror"
HUB = "http://hub.example.com"  # Pods can't resolve it: only the proxy knows it.
REPOSITORY = "org/tiny"
WEIGHTS = 8_000_000


@dataclass(frozen=True)
class Site:
    """What stands around the cluster."""

    registry: Registry
    address: str  # HOST:PORT of the registry
    shelf: Shelf
    proxy: str

    def image(self, name: str) -> str:
        return f"{self.address}/benchrun/{name}:{VERSION}"


@contextmanager
def site(dist: Path) -> Iterator[Site]:
    """Serve the images of the release to who has the password, and a model to the proxy."""
    archives = {
        f"benchrun/{name}": dist / f"{name}-{VERSION}.oci.tar"
        for name in ("operator", "client")
    }
    registry = Registry(archives, tag=VERSION)
    shelf = Shelf(repository=REPOSITORY)
    model = NODE.cache / "models" / "tiny"
    files = {each.name: each.read_bytes() for each in model.iterdir()}
    shelf.put({**files, "extra.safetensors": os.urandom(WEIGHTS)})
    host = str(NODE.host_ip)
    with (
        image_registry.serving(registry, host) as address,
        model_hub.serving(shelf, host, kind=ProxyHandler) as proxy,
    ):
        command("python3", str(ROOT / "devcluster"), "trust-registry", address)
        yield Site(registry, address, shelf, proxy)


@contextmanager
def strict(namespace: Namespace, site: Site, *objects: Object) -> Iterator[None]:
    """A namespace with all that a platform asks for, for as long as the context is open."""
    name = namespace.name
    policies = [
        *admission_policy(f"{name}-scc", name),
        *assigning_policy(f"{name}-user", name),
        *requiring_label(f"{name}-label", name, LABEL),
    ]
    secret = site.registry.pull_secret(SECRET, site.address)
    own = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": POD_SECURITY},
    }
    with ExitStack() as undo:
        for each in (own, *policies):
            undo.callback(_deleted, each)
            command("kubectl", "apply", "--filename=-", stdin=json.dumps(each))
        namespace.apply(*manifests(), *objects, secret)
        _wait_until_in_force(namespace)
        yield


def _deleted(made: Object) -> None:
    name = made["metadata"]["name"]
    command(
        "kubectl",
        "delete",
        made["kind"],
        name,
        "--ignore-not-found",
        "--wait=false",
    )


PROPER: Object = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
    ]
}
"""A pod that lacks a label alone."""
LABELLED = {LABEL: "any"}


def _wait_until_in_force(namespace: Namespace) -> None:
    """Wait until each policy does what it is there for; Pod Security and quotas do so at once."""
    foreign = {**PROPER, "securityContext": {"seLinuxOptions": {"level": "s0"}}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any", "labels": LABELLED},
        "spec": PROPER,
    }
    for _ in polling("the policies are in force", seconds=60):
        if LABEL not in refused_pod(namespace, PROPER):
            continue
        if "restricted-v2" not in refused_pod(namespace, foreign, **LABELLED):
            continue
        with suppress(CommandFailed):  # The quota is not known yet.
            made = create(namespace, manifest)["spec"]["securityContext"]
            if made.get("runAsUser") == made.get("fsGroup") == UIDS.start:
                break


DEFAULT_LIMITS: Object = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "defaults"},
    "spec": {
        "limits": [{"type": "Container", "default": {"cpu": "2", "memory": "4Gi"}}]
    },
}
"""The limits of who gives none, such as the client of the quickstart for the embedded cluster."""


def values_of(site: Site) -> Object:
    """Build the one values file of the platform."""
    every = {"imagePullSecrets": [SECRET], "labels": {LABEL: "lab"}}
    mine = {LABEL: "platform"}
    return {
        "image": {"repository": f"{site.address}/benchrun/operator"},
        "clientImage": {"repository": f"{site.address}/benchrun/client"},
        "imagePullSecrets": [{"name": SECRET}],
        "podLabels": mine,
        "resources": {
            "requests": {"cpu": "250m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
        "release": {
            "podLabels": mine,
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"cpu": "200m", "memory": "256Mi"},
            },
        },
        "runs": {
            "userFromNamespace": True,
            "server": every,
            "offline": every,
            "proxy": every,
            "client": {
                **every,
                "env": [{"name": "HF_ENDPOINT", "value": HUB}],
                "preparationEnv": [
                    {"name": "HTTP_PROXY", "value": site.proxy},
                    {"name": "NO_PROXY", "value": ".svc"},
                ],
            },
        },
    }


@contextmanager
def installed(dist: Path, site: Site, folder: Path) -> Iterator[None]:
    """Install the chart of the release with the one values file."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values_of(site)))
    where = f"--namespace={SYSTEM.name}"
    try:
        command(
            *("helm", "install", "benchrun", str(dist / f"benchrun-{VERSION}.tgz")),
            *(where, "--wait", "--timeout=5m", f"--values={file}"),
            # Other tests apply the kinds themselves.
            *("--take-ownership", "--force-conflicts"),
            timeout_seconds=330,
        )
        yield
    finally:
        command(
            *("helm", "uninstall", "benchrun", where),
            *("--no-hooks", "--ignore-not-found", "--wait"),
        )


def doctor(program: Path, file: Path) -> list[Object]:
    """Return the checks of a file; none may be a problem."""
    done = subprocess.run(
        [
            *(program, "doctor", "-f", file, f"--namespace={LAB.name}"),
            *("--pods", "-o", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert done.stdout, done.stderr
    checks: list[Object] = json.loads(done.stdout)["checks"]
    assert [each for each in checks if each["state"] == "Problem"] == []
    assert done.returncode == 0
    return checks


def of(checks: list[Object], name: str) -> dict[str, str]:
    """Return the states of the checks of that name, by subject."""
    return {c["subject"]: c["state"] for c in checks if c["name"] == name}


def apply_file(file: Path) -> None:
    LAB.kubectl("apply", f"--filename={file}")


def sweep_for_two_cores(folder: Path) -> Path:
    """Write the example of a cached sweep with the names and amounts of this cluster."""
    bodies = list(example("cached-sweep.yaml").values())
    template = bodies[-1]["spec"]["template"]
    template["model"]["name"] = REPOSITORY
    template["server"]["image"] = SIMULATOR_IMAGE
    template["server"]["resources"] = {
        "requests": {"cpu": "250m", "memory": "256Mi"},
        "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1},
    }
    template["client"]["resources"] = {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "4Gi"},
    }
    file = folder / "cached-sweep.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    return file


@pytest.mark.usefixtures("cleared")
def test_from_the_files_of_a_release_to_a_sweep(
    release: Path, tmp_path: Path
) -> None:
    program = installed_command(release, tmp_path)
    quickstart = ROOT / "examples/quickstart.yaml"
    with (
        site(release) as around,
        strict(SYSTEM, around),
        strict(LAB, around, DEFAULT_LIMITS),
        installed(release, around, tmp_path),
    ):
        checks = doctor(program, quickstart)
        assert of(checks, "pod") == dict.fromkeys(
            ("pod of client", "pod of server"), "Ok"
        )
        assert set(of(checks, "started").values()) == {"Ok"}

        apply_file(quickstart)
        run = finished(LAB, "quickstart", timeout_seconds=1200)
        assert condition(run, "Complete")["status"] == "True", run["status"]
        assert len(run["status"]["results"]) == 4
        (job,) = LAB.list("jobs")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container["image"] == around.image("client")

        sweep = sweep_for_two_cores(tmp_path)
        apply_file(sweep)
        swept = LAB.wait_for(
            SWEEP, "cached-sweep", is_finished, timeout_seconds=900, what="finished"
        )
        assert condition(swept, "Complete")["status"] == "True", swept["status"]
        _one_download(around)
        assert around.registry.pulled.keys() == around.registry.archives.keys()


def _one_download(around: Site) -> None:
    """The first run's client filled the claim before a server had a node; the second found it."""
    assert around.shelf.handed_out["extra.safetensors"] == WEIGHTS
    statuses = [run["status"] for run in runs_of(LAB, "cached-sweep").values()]
    first, second = sorted(statuses, key=lambda each: each["scheduledTime"])
    assert (first["model"]["start"], second["model"]["start"]) == ("Cold", "Warm")
    assert first["model"]["completedTime"] <= first["scheduledTime"]
    assert first["model"]["commit"] == second["model"]["commit"]
