"""What vLLM makes of the published models, asked again: the table that unit tests are held against
is the engine's own."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from client.processes import VLLM_PYTHON

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests/unit/sizing/models.vllm-0.32.0.json"
MULTIMODAL = "torchvision"  # Not in the embedded cluster's vLLM: such models are left out there.


def test_the_table_is_what_vllm_says(tmp_path: Path) -> None:
    models = ROOT / "tests/unit/sizing/models.yaml"
    words = [VLLM_PYTHON, ROOT / "dev/engine_shapes.py", models, tmp_path]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": ""})
    told = json.loads(TABLE.read_text())
    asked = json.loads((tmp_path / TABLE.name).read_text())
    assert asked.keys() == told.keys()
    compared = {
        name: answer
        for name, answer in asked.items()
        if MULTIMODAL not in json.dumps(answer)
    }
    assert len(compared) > len(told) * 0.8
    for name, answer in compared.items():
        if "refused" not in answer:
            assert answer == told[name], name
