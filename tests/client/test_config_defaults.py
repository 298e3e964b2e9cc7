"""What a model's class fills in for keys that config.json leaves out: our defaults are those of the
transformers library that vLLM has."""

import json
import subprocess
from pathlib import Path

from client.processes import VLLM_PYTHON

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "operator/benchrun/sizing/config_defaults.json"


def test_defaults_are_those_of_the_classes(tmp_path: Path) -> None:
    asked = tmp_path / KEPT.name
    models = ROOT / "tests/unit/sizing/models.yaml"
    words = [VLLM_PYTHON, ROOT / "dev/config_defaults.py", models, asked]
    subprocess.run(words, check=True)
    assert json.loads(asked.read_text()) == json.loads(KEPT.read_text())
