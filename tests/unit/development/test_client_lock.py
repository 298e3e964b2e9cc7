"""What the client's image is made of: locked whole, with hashes, and without torch."""

import re
import tomllib
from pathlib import Path

from devcluster import vllm_cpu

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements" / "client.txt").read_text()
GROUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"][
    "client"
]
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;\\]+)", re.MULTILINE)
LOCKED = {pin["name"]: pin["version"] for pin in PIN.finditer(LOCK)}


def test_the_lock_holds_all_that_the_client_asks_for() -> None:
    names = {re.split(r"[=<>!~ ;\[]", each)[0] for each in GROUP}
    assert names <= LOCKED.keys()
    pins = {
        pin["name"]: pin["version"] for each in GROUP if (pin := PIN.match(each))
    }
    assert pins.items() <= LOCKED.items()


def test_every_file_has_a_hash_and_no_index_is_named() -> None:
    entries = re.split(r"^(?=[a-z0-9-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", LOCK)


def test_neither_torch_nor_its_libraries_are_among_them() -> None:
    heavy = {*vllm_cpu.TORCH_FAMILY, "triton", "numba", "ray"}
    assert not [
        name for name in LOCKED if name in heavy or name.startswith("nvidia-")
    ]


def test_the_load_engine_is_the_version_that_tests_measure_with() -> None:
    assert LOCKED["vllm"] == vllm_cpu.VLLM_VERSION
