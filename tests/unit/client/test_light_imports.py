"""What libraries import for names alone is not loaded, and what they call is."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3] / "client-image"
NAMES_ALONE = """
import torch
import torch.nn as nn
from vllm.lora.request import LoRARequest

class Layer(nn.Module):
    dtypes: dict[torch.dtype, LoRARequest | None] = {}

def is_tensor(value: torch.Tensor | None) -> bool:
    return isinstance(value, torch.Tensor)

SampleRequest = dict
"""
FILES = {
    "torch/__init__.py": "IMPORTED = True\ndef compile(f): return f",
    "vllm/__init__.py": "import vllm.env_override",
    "vllm/env_override.py": "import torch\ntorch.compile(print)",
    "vllm/benchmarks/__init__.py": "",
    "vllm/benchmarks/serve.py": NAMES_ALONE,
    "vllm/lora/__init__.py": "import torch",
    "vllm/lora/request.py": "class LoRARequest: pass",
    "transformers/__init__.py": """
from importlib.util import find_spec
HAS_TORCH = find_spec("torch") is not None
AutoTokenizer = dict
""",
}


def printed(folder: Path, code: str, **files: str) -> str:
    """What a new Python prints where these libraries are installed."""
    for name, text in {
        **FILES,
        **{name.replace("__", "/") + ".py": text for name, text in files.items()},
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    setup = (
        f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(folder)!r}]\nfrom benchrun_client "
        "import light_imports\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", setup + code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_nothing_is_loaded_for_names_in_annotations_and_base_classes(
    tmp_path: Path,
) -> None:
    code = """
serve = light_imports.vllm_benchmark()
print(serve.is_tensor(1), serve.SampleRequest is dict, sys.modules.keys() & {"torch", "vllm.lora", "vllm.env_override"})
import torch
print(torch.IMPORTED)
"""
    assert printed(tmp_path, code).splitlines() == ["False True set()", "True"]


def test_what_is_called_while_it_is_imported_is_loaded(tmp_path: Path) -> None:
    benchmark = (
        "import torch\nf = torch.compile(lambda: 7)\nimport transformers\nSampleRequest = "
        "dict\nhas = transformers.HAS_TORCH"
    )
    code = """
before = light_imports.transformers()
serve = light_imports.vllm_benchmark()
print(before.HAS_TORCH, serve.f(), serve.has, sys.modules["torch"].IMPORTED)
"""
    assert (
        printed(tmp_path, code, vllm__benchmarks__serve=benchmark)
        == "False 7 True True"
    )


def test_a_torch_that_came_after_the_tokenizer_does_not_meet_transformers_without_it(
    tmp_path: Path,
) -> None:
    benchmark = (
        "from vllm.lora.request import LoRARequest\nSampleRequest = dict\nclass "
        "Adapter(LoRARequest): pass"
    )
    lora = "import transformers\nassert transformers.HAS_TORCH\nclass LoRARequest: pass"
    code = """
light_imports.transformers()
import torch
print(light_imports.vllm_benchmark().Adapter.__name__, "vllm.lora" in sys.modules)
"""
    assert (
        printed(
            tmp_path,
            code,
            vllm__benchmarks__serve=benchmark,
            vllm__lora__request=lora,
        )
        == "Adapter False"
    )


def test_a_placeholder_that_is_called_later_raises(tmp_path: Path) -> None:
    code = """
serve = light_imports.vllm_benchmark()
try:
    serve.Layer()
except TypeError as error:
    print(type(error).__name__)
"""
    assert printed(tmp_path, code) == "TypeError"


def test_transformers_are_loaded_without_torch_unless_it_is_there(
    tmp_path: Path,
) -> None:
    assert (
        printed(
            tmp_path,
            'print(light_imports.transformers().HAS_TORCH, "torch" in sys.modules)',
        )
        == "False False"
    )
    assert (
        printed(
            tmp_path, "import torch\nprint(light_imports.transformers().HAS_TORCH)"
        )
        == "True"
    )


def test_a_library_that_is_missing_is_an_import_error(tmp_path: Path) -> None:
    code = """
sys.path.pop(1)
for load in (light_imports.transformers, light_imports.vllm_benchmark):
    try:
        load()
    except ImportError as error:
        print(error.name.partition(".")[0], "torch" in sys.modules)
"""
    assert printed(tmp_path, code).splitlines()[-1] == "vllm False"
