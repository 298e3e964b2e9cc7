"""Two base images without a registry, made of Debian packages.

docker.io/library/python:3.11-slim lets an ordinary `FROM python:3.11-slim` build.
docker.io/vllm/vllm-openai:dev holds what vLLM on a CPU needs around it; vLLM itself, 6 GB, is
mounted from the node (configs.container_mounts).
"""

import hashlib
import tempfile
from pathlib import Path

from devcluster import debian, images, locks, package_index
from devcluster.reporting import DevclusterError, say
from devcluster.running import run
from devcluster.settings import Settings

RELEASE = "bookworm"
PYTHON_IMAGE = "docker.io/library/python:3.11-slim"
VLLM_IMAGE = "docker.io/vllm/vllm-openai:dev"
LABEL = "devcluster.recipe"

PYTHON_PACKAGES = "python3,python3-venv,ca-certificates"
PYTHON_OPTIONS = (
    "--env=PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "--env=LANG=C.UTF-8",
    '--cmd=["python3"]',
)
# Of no use in an image: package lists, documentation, and files debootstrap copies from the
# machine.
LEFT_OUT = (
    *(
        "etc/resolv.conf",
        "etc/hostname",
        "var/cache/apt",
        "var/lib/apt/lists",
        "var/log",
    ),
    *("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale"),
)

VLLM_COMMAND = '#!/bin/sh\nexec python3 -m vllm.entrypoints.cli.main "$@"\n'
# g++ and libpython3-dev: torch compiles at run time unless told --enforce-eager. USER and HOME: a
# user id that is in no password file has neither, and libraries that ask for them fail. The entry
# point is that of the image this one stands for.
VLLM_DOCKERFILE = """\
FROM python:3.11-slim
RUN apt-get update \\
 && apt-get install -qy --no-install-recommends libnuma1 libgomp1 g++ libpython3-dev \\
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc/*
COPY --chmod=755 vllm /usr/local/bin/vllm
ENV PYTHONPATH=/opt/vllm/lib/python3.11/site-packages HOME=/tmp USER=vllm \\
    HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1
ENTRYPOINT ["vllm", "serve"]
"""


def make(settings: Settings) -> None:
    """Build each image that is missing or that was built by another recipe than this file's."""
    debian.require_root()
    debian.ensure(debian.IMAGES)
    with locks.held(settings.cache / "images"):
        python = fingerprint(PYTHON_PACKAGES, *PYTHON_OPTIONS, *LEFT_OUT)
        if images.label(settings, PYTHON_IMAGE, LABEL) != python:
            _make_python(settings, python)
        vllm = fingerprint(python, VLLM_COMMAND, VLLM_DOCKERFILE)
        if images.label(settings, VLLM_IMAGE, LABEL) != vllm:
            _make_vllm(settings, vllm)


def fingerprint(*parts: str) -> str:
    """Return a short digest of an image's recipe; the image carries it as a label."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _make_python(settings: Settings, recipe: str) -> None:
    say(f"building {PYTHON_IMAGE} (1 minute)")
    log = settings.cache / "images" / "debootstrap.log"
    with tempfile.TemporaryDirectory(dir=settings.cache / "images") as folder:
        root = Path(folder)
        _debootstrap(root, log)
        # The official image's Python is in /usr/local and pip may write there. Debian's is in /usr
        # and refuses pip (PEP 668). A virtual environment AT /usr/local has the same paths as the
        # official image.
        run("chroot", root, "/usr/bin/python3", "-m", "venv", "/usr/local")
        for path in LEFT_OUT:
            run("rm", "-rf", "--one-file-system", root / path)
        (root / "var/log").mkdir()
        (root / "var/cache/apt/archives/partial").mkdir(parents=True)
        (root / "var/lib/apt/lists/partial").mkdir(parents=True)
        # a temporary folder is its maker's alone, and this one becomes "/"
        root.chmod(0o755)
        images.commit_folder(
            settings,
            root,
            tag=PYTHON_IMAGE,
            options=[*PYTHON_OPTIONS, f"--label={LABEL}={recipe}"],
        )
    say(f"built {PYTHON_IMAGE}")


def _debootstrap(root: Path, log: Path) -> None:
    mirror = package_index.debian_mirror(RELEASE)
    command = (
        "debootstrap",
        "--variant=minbase",
        f"--include={PYTHON_PACKAGES}",
        RELEASE,
        str(root),
    )
    try:
        log.write_text(run(*command, *([mirror] if mirror else [])))
    except DevclusterError as error:
        raise DevclusterError(
            f"{error}; is the Debian mirror in /etc/apt reachable?"
        ) from error


def _make_vllm(settings: Settings, recipe: str) -> None:
    say(f"building {VLLM_IMAGE} (15 seconds)")
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        (context / "Dockerfile").write_text(VLLM_DOCKERFILE)
        (context / "vllm").write_text(VLLM_COMMAND)
        images.build(
            settings,
            images.Build(
                tag=VLLM_IMAGE, context=context, labels=(f"{LABEL}={recipe}",)
            ),
        )
