"""The Go modules the programs are built from: their versions, and how kube/go.mod is written.

k8s.io/kubernetes is published as a module that cannot be required as it stands: its go.mod points
some thirty modules (k8s.io/api, k8s.io/client-go, ...) at folders of its own repository, and Go
ignores the `replace` lines of every module but the main one. Each of those modules is also
published on its own, Kubernetes 1.X.Y as v0.X.Y, so kube/go.mod replaces each one by its published
twin. Their names differ between releases, so they are read from the release itself.
"""

import json
import re
import tempfile
from hashlib import sha256
from pathlib import Path

from devcluster.reporting import DevclusterError, say
from devcluster.running import run

KUBE = Path(__file__).parent / "kube"
COREDNS = Path(__file__).parent / "coredns"
PROMTOOL = Path(__file__).parent / "promtool"
PROMETHEUS = "github.com/prometheus/prometheus"
ACTIONLINT = Path(__file__).parent / "actionlint"
ACTIONLINT_MODULE = "github.com/rhysd/actionlint"
GITOPS = Path(__file__).parent / "gitops"
ARGO_CD = Path(__file__).parent / "argocd"
S3 = Path(__file__).parent / "s3"
S3_GATEWAY = "github.com/versity/versitygw"
GCS = Path(__file__).parent / "gcs"
LWS = Path(__file__).parent / "lws"
LEADER_WORKER_SET = "sigs.k8s.io/lws"
KUEUE = Path(__file__).parent / "kueue"
KUEUE_MODULE = "sigs.k8s.io/kueue"


def required_version(go_mod: str, module: str) -> str:
    """Return the version, without its v, of a module that a go.mod requires.

    Raises DevclusterError when the go.mod does not require it.
    """
    found = re.search(
        rf"^(?:require)?\s*{re.escape(module)} v(\S+)", go_mod, re.MULTILINE
    )
    if found is None:
        raise DevclusterError(
            f"go.mod requires no {module}; restore the file from git"
        )
    return found[1]


def digest(folder: Path) -> str:
    """Return a short digest of a program of our own: of its sources and its modules."""
    sources = sorted((*folder.glob("*.go"), *folder.glob("go.*")))
    texts = (source.read_bytes() for source in sources)
    return sha256(b"\0".join(texts)).hexdigest()[:12]


def source_folder(folder: Path, module: str) -> Path:
    """Return the folder where Go keeps the sources of a module, downloading them if need be.

    The go.mod in `folder` requires the module and fixes its version.
    """
    answer = json.loads(
        run(
            "go",
            "mod",
            "download",
            "-json",
            module,
            folder=folder,
            extra={"GOFLAGS": "-mod=readonly"},
        )
    )
    return Path(answer["Dir"])


def staging_version(kubernetes: str) -> str:
    """Return the version of the modules published beside a Kubernetes release: 1.36.3 -> v0.36.3.

    Raises DevclusterError when `kubernetes` is not a Kubernetes version.
    """
    found = re.fullmatch(r"v?1\.(\d+\.\d+\S*)", kubernetes)
    if found is None:
        raise DevclusterError(
            f"not a Kubernetes version, such as 1.36.3: {kubernetes!r}"
        )
    return f"v0.{found[1]}"


def staging_modules(kubernetes_go_mod: str) -> list[str]:
    """Return the modules a Kubernetes release takes from its own repository, sorted."""
    pattern = r"^(?:replace)?\s*(k8s\.io/[\w.-]+) => \./staging/"
    return sorted(set(re.findall(pattern, kubernetes_go_mod, re.MULTILINE)))


def kube_go_mod(kubernetes: str, kubernetes_go_mod: str) -> str:
    """Return the text of kube/go.mod before `go mod tidy` adds the indirect requirements.

    Raises DevclusterError when the go.mod of Kubernetes does not have the known form.
    """
    version = kubernetes.removeprefix("v")
    staging = staging_version(version)
    language = re.search(r"^go (\S+)$", kubernetes_go_mod, re.MULTILINE)
    modules = staging_modules(kubernetes_go_mod)
    if language is None or not modules:
        raise DevclusterError(
            f"the go.mod of Kubernetes {version} is not of the known form; see go_modules.py"
        )
    replaced = "".join(f"\t{module} => {module} {staging}\n" for module in modules)
    return (
        f"module devcluster/kube\n\ngo {language[1]}\n\n"
        f"require (\n\tk8s.io/component-base {staging}\n\tk8s.io/kubernetes v{version}\n)\n\n"
        f"replace (\n{replaced})\n"
    )


def write_kube(kubernetes: str) -> None:
    """Write kube/go.mod and kube/go.sum for another Kubernetes version."""
    staging_version(kubernetes)  # raises early
    module = f"k8s.io/kubernetes@v{kubernetes.removeprefix('v')}"
    say(f"reading {module}")
    with (
        tempfile.TemporaryDirectory() as elsewhere
    ):  # a folder without a go.mod, so that none has a say
        answer = json.loads(
            run("go", "mod", "download", "-json", module, folder=Path(elsewhere))
        )
    (KUBE / "go.mod").write_text(
        kube_go_mod(kubernetes, Path(answer["GoMod"]).read_text())
    )
    (KUBE / "go.sum").unlink(missing_ok=True)
    run("go", "mod", "tidy", folder=KUBE, shown=True)
    say(f"wrote {KUBE / 'go.mod'} and go.sum; `devcluster tools` builds them")
