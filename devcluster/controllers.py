"""Controllers that are an optional part, each built from its Go module and installed by its chart.

The Helm chart lies in the same module: custom resources, rights, webhooks, and the certificates
that the controller makes for them. So what runs here is what a user would install, except for where
the image comes from.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import debian, go_modules, images, locks, node_process, tools, up
from devcluster.reporting import DevclusterError, say
from devcluster.running import run, wait_until
from devcluster.settings import Settings

USER = "65532:65532"
"""User as a number: kubelet must see that it is not root."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Controller:
    """A controller, where it is built from, and what its own chart is told."""

    title: str  # how people call it
    name: str  # its Helm release, its namespace without -system, and its chart's folder
    source: Path  # folder with the go.mod that fixes its version
    module: str
    package: str  # of its main program
    values: Mapping[str, str]  # values of its chart beside those of the image
    image_value: str  # value of its chart that holds repository, tag and pullPolicy
    asked: Mapping[
        str, Any
    ]  # spec and kind of an object that its webhooks take once they serve
    minutes: int  # that its build takes on two cores when nothing is cached

    @property
    def namespace(self) -> str:
        return f"{self.name}-system"

    @property
    def repository(self) -> str:
        return f"docker.io/{self.name}/{self.name}"


def install(settings: Settings, controller: Controller) -> None:
    """Build the controller if need be, and install it into the running cluster.

    Running it again does no harm. Raises DevclusterError when the cluster is not up.
    """
    debian.require_root()
    debian.ensure(debian.IMAGES)
    if node_process.recorded(settings) is None:
        raise DevclusterError(
            "the cluster is not up, so there is nothing to install into; run: devcluster up"
        )
    go_mod = (controller.source / "go.mod").read_text()
    version = go_modules.required_version(go_mod, controller.module)
    image = f"{controller.repository}:v{version}"
    with locks.held(settings.cache / "images"):
        if image not in images.built(settings):
            program = _program(settings.programs, controller, version)
            _make_image(settings, program, image)
    images.load(settings, [image])
    module = go_modules.source_folder(controller.source, controller.module)
    run(
        *helm_command(
            settings, controller, module / "charts" / controller.name, version
        ),
        extra={"NO_PROXY": str(settings.node_ip)},
    )
    log = f"deployment/{controller.name}-controller-manager"
    remedy = f"see kubectl --namespace {controller.namespace} logs {log}"
    # Its pod is Ready some seconds before its webhooks are, without which nothing of its kind can
    # be created.
    wait_until(
        lambda: _takes_objects(settings, controller),
        what=f"{controller.title}'s webhooks",
        timeout_seconds=90,
        remedy=remedy,
    )
    say(f"{controller.title} {version} serves in namespace {controller.namespace}")


def helm_command(
    settings: Settings, controller: Controller, chart: Path, version: str
) -> tuple[str, ...]:
    """Return the command that installs the chart and waits until its controller runs."""
    image = controller.image_value
    values = {
        f"{image}.repository": controller.repository,
        f"{image}.tag": f"v{version}",
        f"{image}.pullPolicy": "IfNotPresent",
        **controller.values,
    }
    helm = (str(settings.programs / "helm"), f"--kubeconfig={settings.kubeconfig}")
    words = (
        "upgrade",
        "--install",
        controller.name,
        str(chart),
        f"--namespace={controller.namespace}",
        "--create-namespace",
    )
    return (
        *helm,
        *words,
        *(f"--set={name}={value}" for name, value in values.items()),
        "--wait",
        "--timeout=5m",
    )


def _takes_objects(settings: Settings, controller: Controller) -> bool:
    about = {"name": "asked", "namespace": controller.namespace}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({**controller.asked, "metadata": about}, file)
        file.flush()
        return up.kubectl_succeeds(
            settings, "create", "--dry-run=server", f"--filename={file.name}"
        )


def _program(programs: Path, controller: Controller, version: str) -> Path:
    """Build the controller unless it is there, and return its path.

    It does not tell its version, so the file's name does.
    """
    program = programs / f"{controller.name}-{version}"
    with locks.held(programs):
        if not program.exists():
            say(
                f"building {controller.title} {version} ({controller.minutes} minutes on 2 cores "
                "when nothing is cached)"
            )
            tools.go_build(
                controller.source,
                program,
                flags="",
                cgo=False,
                package=controller.package,
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
