"""The flags that `benchrun check` knows are those that the installed vLLM tells of itself."""

import subprocess
from pathlib import Path

from client.processes import VLLM_PYTHON

REPOSITORY = Path(__file__).parents[2]
TABLES = REPOSITORY / "operator/benchrun/preflight/vllm_flags"


def test_the_table_of_this_version_is_as_made_anew(tmp_path: Path) -> None:
    subprocess.run(
        [VLLM_PYTHON, REPOSITORY / "dev/vllm_flags.py", tmp_path], check=True
    )
    (made,) = tmp_path.iterdir()
    assert (TABLES / made.name).read_text(encoding="utf-8") == made.read_text(
        encoding="utf-8"
    )
