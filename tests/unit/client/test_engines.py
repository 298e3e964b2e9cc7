"""Server engines: a folder is all that another one needs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import benchrun_client

SOURCE = Path(benchrun_client.__file__).parent
OTHER = """
from dataclasses import replace
from benchrun_client.engines.vllm import ENGINE as VLLM

VLLM = ENGINES["VLLM"]
ENGINE = replace(VLLM, name="SGLang", port=30000)
"""


def test_a_folder_is_an_engine(tmp_path: Path) -> None:
    package = tmp_path / "benchrun_client"
    shutil.copytree(SOURCE / "engines", package / "engines")
    (package / "__init__.py").touch()
    (package / "engines" / "sglang").mkdir()
    (package / "engines" / "sglang" / "__init__.py").write_text(OTHER)
    show = (
        "from benchrun_client.engines import ENGINES, ENGINES; print({k: e.port for k, e in "
        "ENGINES.items()}, VLLM.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", show],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{'sglang': 30000, 'vllm': 8000} vLLM\n"
