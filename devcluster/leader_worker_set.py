"""LeaderWorkerSet, an optional part: pods in groups of a leader and its workers.

A group is one server over several nodes. The controller is built from its Go module, and installed
by the Helm chart that lies in the same module: custom resource, rights, webhooks, and the
certificates that it makes for them. So what runs here is what a user would install, except for
where the image comes from.
"""

import json
import shutil
import tempfile
from pathlib import Path

from devcluster import debian, go_modules, images, locks, node_process, tools, up
from devcluster.reporting import DevclusterError, say
from devcluster.running import run, wait_until
from devcluster.settings import Settings

NAMESPACE = "lws-system"
REPOSITORY = "docker.io/lws/lws"
USER = "65532:65532"
"""User as a number: kubelet must see that it is not root."""


def install(settings: Settings) -> None:
    """Build the controller if need be, and install it into the running cluster.

    Running it again does no harm. Raises DevclusterError when the cluster is not up.
    """
    debian.require_root()
    debian.ensure(debian.IMAGES)
    if node_process.recorded(settings) is None:
        raise DevclusterError(
            "the cluster is not up, so there is nothing to install into; run: devcluster up"
        )
    version = go_modules.required_version(
        (go_modules.LWS / "go.mod").read_text(), go_modules.LEADER_WORKER_SET
    )
    image = f"{REPOSITORY}:v{version}"
    with locks.held(settings.cache / "images"):
        if image not in images.built(settings):
            _make_image(settings, _program(settings.programs, version), image)
    images.load(settings, [image])
    chart = (
        go_modules.source_folder(go_modules.LWS, go_modules.LEADER_WORKER_SET)
        / "charts"
        / "lws"
    )
    run(
        *helm_command(settings, chart, version),
        extra={"NO_PROXY": str(settings.node_ip)},
    )
    remedy = f"see kubectl --namespace {NAMESPACE} logs deployment/lws-controller-manager"
    # Its pod is Ready some seconds before its webhooks are, without which nothing of its kind can
    # be created.
    wait_until(
        lambda: _takes_objects(settings),
        what="LeaderWorkerSet's webhooks",
        timeout_seconds=90,
        remedy=remedy,
    )
    say(f"LeaderWorkerSet {version} serves in namespace {NAMESPACE}")


def helm_command(settings: Settings, chart: Path, version: str) -> tuple[str, ...]:
    """Return the command that installs the chart and waits until its controller runs."""
    values = {
        "image.manager.repository": REPOSITORY,
        "image.manager.tag": f"v{version}",
        "image.manager.pullPolicy": "IfNotPresent",
        # the chart's own request, a whole core, is half of a small machine
        "resources.requests.cpu": "50m",
        "resources.requests.memory": "64Mi",
    }
    helm = (str(settings.programs / "helm"), f"--kubeconfig={settings.kubeconfig}")
    words = (
        "upgrade",
        "--install",
        "lws",
        str(chart),
        f"--namespace={NAMESPACE}",
        "--create-namespace",
    )
    return (
        *helm,
        *words,
        *(f"--set={name}={value}" for name, value in values.items()),
        "--wait",
        "--timeout=2m",
    )


def _takes_objects(settings: Settings) -> bool:
    pod = {"spec": {"containers": [{"name": "asked", "image": "asked"}]}}
    asked = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "asked", "namespace": NAMESPACE},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": pod}},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        return up.kubectl_succeeds(
            settings, "create", "--dry-run=server", f"--filename={file.name}"
        )


def _program(programs: Path, version: str) -> Path:
    """Build the controller unless it is there, and return its path.

    It does not tell its version, so the file's name does.
    """
    program = programs / f"lws-{version}"
    with locks.held(programs):
        if not program.exists():
            say(
                f"building LeaderWorkerSet {version} (4 minutes on 2 cores when nothing is cached)"
            )
            package = f"{go_modules.LEADER_WORKER_SET}/cmd"
            tools.go_build(
                go_modules.LWS, program, flags="", cgo=False, package=package
            )
    return program


def _make_image(settings: Settings, program: Path, image: str) -> None:
    with tempfile.TemporaryDirectory(dir=settings.cache / "images") as folder:
        root = Path(folder)
        shutil.copy(program, root / "manager")
        (root / "tmp").mkdir()
        # a temporary folder is its maker's alone, and this one becomes "/"
        root.chmod(0o755)
        images.commit_folder(
            settings,
            root,
            tag=image,
            options=(f"--user={USER}", '--entrypoint=["/manager"]'),
        )
    say(f"built {image}")
