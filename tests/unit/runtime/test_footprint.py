"""What the operator costs before it does anything."""

import json
import os
import subprocess
import sys
from typing import TypedDict

import pytest

IMPORT_MIB = 100  # resident after importing everything; about 75 when this was written

PROGRAM = """
import json, sys
from benchrun.runtime.__main__ import main
del sys.argv[1:]
assert main() == 2  # there are no settings; by then all is imported
pages = int(open("/proc/self/statm").read().split()[1])
print(json.dumps({"modules": sorted(sys.modules), "mib": pages * 4096 // 2**20}))
"""


class Imported(TypedDict):
    modules: list[str]
    mib: int


@pytest.fixture(scope="module")
def imported() -> Imported:
    """A new process that imported the whole operator."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BENCHRUN_")}
    environment = inherited | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    found: Imported = json.loads(answer.stdout)
    return found


def test_typed_models_and_apis_of_the_kubernetes_client_are_never_imported(imported: Imported) -> None:
    modules = imported["modules"]
    typed = [m for m in modules if m.startswith(("kubernetes.aio.client.models.", "kubernetes.aio.client.api."))]
    assert typed == []


def test_heavy_libraries_and_the_synchronous_kubernetes_client_are_not_imported(imported: Imported) -> None:
    modules = set(imported["modules"])
    assert {"kubernetes.aio", "kopf"} <= modules
    synchronous = {"requests", "requests_oauthlib", "websocket", "kubernetes.config", "kubernetes.stream"}
    heavy = {"numpy", "pandas", "vllm", "transformers", "jinja2", "vl_convert", "benchrun.report.html"}
    assert (synchronous | heavy) & modules == set()


def test_nothing_of_the_judge_is_imported(imported: Imported) -> None:
    """Whatever a tenant's pod sent is opened in a process of its own."""
    modules = imported["modules"]
    job = {"benchrun.judge_process", "benchrun.judge_process.messages"}
    assert [m for m in modules if m.startswith(("benchrun.judge.", "benchrun.judge_process")) and m not in job] == []
    assert "benchrun.judge" not in modules


def test_import_stays_small(imported: Imported) -> None:
    assert imported["mib"] < IMPORT_MIB
