"""Writes the shapes that vLLM gives models: `python dev/engine_shapes.py MODELS FOLDER [NAME ...]`.

Run it with a Python that has the vLLM version for the CPU. MODELS is a YAML file with the
config.json of published models by name. Each model is built without weights, once for every size of
tensor parallelism, to see what its layers keep in the KV cache. Tests compare benchrun's own
figures with the result. Models that see images need torchvision beside vLLM.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}

import torch
import yaml
from transformers import AutoConfig, PreTrainedConfig
from vllm.config import (
    VllmConfig,
    get_layers_from_vllm_config,
    set_current_vllm_config,
)
from vllm.distributed import (
    ensure_model_parallel_initialized,
    init_distributed_environment,
    parallel_state,
)
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers import rotary_embedding
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models import registry
from vllm.platforms.cpu import CpuPlatform
from vllm.utils.torch_utils import set_default_torch_dtype

SIZES = (1, 2, 3, 4, 8, 16)
MOST_CHARACTERS = 300  # of an error message


class NoRope(torch.nn.Module):  # type: ignore[misc]
    """Stands in for rotary embeddings, whose tables can't be computed without memory.

    Positions keep nothing in the KV cache.
    """

    def __getattr__(self, name: str) -> Any:
        told: dict[str, object] = {
            "scale": 1.0,
            "enabled": lambda: True,
            "is_neox_style": True,
        }
        return told[name] if name in told else super().__getattr__(name)


class Remote(PreTrainedConfig):  # type: ignore[misc]
    """Stands in for a config class that comes with the weights.

    It has the members of config.json as attributes.
    """

    def __init__(self, **given: Any) -> None:
        blocks = [namespace(each) for each in given.pop("block_configs", [])]
        super().__init__(**given)
        self.block_configs = blocks


class Members(dict[str, Any]):
    """An object whose members are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return namespace(self[name])


def namespace(value: Any) -> Any:
    """Return an object with its members as attributes; any other value unchanged."""
    return Members(value) if isinstance(value, dict) else value


def prepare() -> None:
    """Make this one process act for all ranks, and inspect models without subprocesses."""
    torch.set_num_threads(1)
    registry._run_in_subprocess = lambda read: read()
    rotary_embedding.get_rope = lambda *_, **__: NoRope()
    chosen = CpuPlatform.get_attn_backend_cls

    def for_sparse_too(
        selected_backend: Any,
        attn_selector_config: Any,
        num_heads: int | None = None,
    ) -> str:
        asked = attn_selector_config._replace(use_sparse=False)
        return str(chosen(selected_backend, asked, num_heads))

    CpuPlatform.get_attn_backend_cls = staticmethod(for_sparse_too)
    for name in ("internlm2", "nemotron-nas"):
        members = {"model_type": name, "__init__": Remote.__init__}
        AutoConfig.register(name, type(name, (Remote,), members))
    address = "file://" + tempfile.mktemp()
    init_distributed_environment(1, 0, address, 0, "gloo")
    with set_current_vllm_config(VllmConfig()):
        ensure_model_parallel_initialized(1, 1)


def answer(config: Mapping[str, Any]) -> dict[str, object]:
    """Return everything that vLLM says about one model."""
    try:
        made = settings_of(config)
    except Exception as problem:
        return {"refused": said(problem)}
    model = made.model_config
    return {
        "context": model.max_model_len,
        "limit": limit_of(model),
        "query_heads": model.model_arch_config.total_num_attention_heads,
        "kv_heads": model.get_total_num_kv_heads(),
        "head_size": model.get_head_size(),
        "layers": model.get_total_num_hidden_layers(),
        "experts": model.get_num_experts(),
        "dtype": str(model.dtype).removeprefix("torch."),
        "verified": {
            str(size): verified(model, tensor_parallel_size=size) for size in SIZES
        },
        "expert_parallel": verified(model, enable_expert_parallel=True),
        "pipelines": verified(model, pipeline_parallel_size=2),
        "kept": kept_by(config, made),
    }


def settings_of(config: Mapping[str, Any]) -> VllmConfig:
    """Return the settings that vLLM derives from a config.json without weights."""
    # Kept, since it is read again while the model is built.
    folder = tempfile.mkdtemp()
    Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
    return EngineArgs(
        folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        language_model_only=True,
        mamba_cache_mode="none",
    ).create_engine_config()


def kept_by(config: Mapping[str, Any], made: VllmConfig) -> dict[str, object]:
    """Return what the layers keep in the KV cache, by the size of tensor parallelism.

    If the CPU has no kernel for the weights' format, plain weights are used. The result is the same
    unless the format sets the type of the cache.
    """
    if isinstance(kept(made, 1), str) and "quantization_config" in config:
        plain = {
            key: value
            for key, value in config.items()
            if key != "quantization_config"
        }
        made = settings_of(plain)
    return {str(size): kept(made, size) for size in SIZES}


def limit_of(model: Any) -> int | None:
    """Return the longest --max-model-len that is accepted; None without a limit."""
    from vllm.config.model import _get_and_verify_max_len

    def accepts(tokens: int) -> bool:
        try:
            _get_and_verify_max_len(
                hf_config=model.hf_text_config,
                model_arch_config=model.model_arch_config,
                tokenizer_config=None,
                max_model_len=tokens,
                disable_sliding_window=False,
                sliding_window=model.get_sliding_window(),
            )
        except ValueError:
            return False
        return True

    low = 1
    high = 2**30
    if accepts(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def verified(model: Any, **sizes: int | bool) -> str | None:
    """Return why vLLM refuses these parallel sizes, or None if it does not."""
    plain: dict[str, int | bool] = {
        "enable_hc_sp": False,
        "enable_expert_parallel": False,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "decode_context_parallel_size": 1,
        "world_size_across_dp": 1,
    }
    return refusal(
        lambda: model.verify_with_parallel_config(SimpleNamespace(**plain | sizes))
    )


def kept(made: VllmConfig, size: int) -> object:
    """Return what the layers on the first of `size` GPUs keep, or why the model can't be built.

    Each row has kind, window, bytes a token, and the number of such layers.
    """
    made.compilation_config.static_forward_context.clear()
    made.parallel_config.tensor_parallel_size = size
    parallel_state.get_tp_group().world_size = size
    try:
        with (
            set_current_vllm_config(made),
            set_default_torch_dtype(made.model_config.dtype),
            torch.device("meta"),
        ):
            initialize_model(vllm_config=made)
            layers = get_layers_from_vllm_config(made, AttentionLayerBase)
            specs = [layer.get_kv_cache_spec(made) for layer in layers.values()]
    except Exception as problem:
        return said(problem)
    finally:
        parallel_state.get_tp_group().world_size = 1
    found = Counter(described(spec) for spec in specs if spec is not None)
    return [[*each, count] for each, count in sorted(found.items(), key=str)]


def described(spec: Any) -> tuple[str, int | None, float]:
    """Return kind, window, and bytes a token; for a state, its bytes."""
    kind = type(spec).__name__
    if kind == "MambaSpec":
        return kind, None, spec.page_size_bytes
    window = getattr(spec, "sliding_window", None) or getattr(
        spec, "attention_chunk_size", None
    )
    return kind, window, spec.page_size_bytes / spec.block_size


def refusal(do: Callable[[], object]) -> str | None:
    try:
        do()
    except Exception as problem:
        return said(problem)
    return None


def said(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {' '.join(lines)[:MOST_CHARACTERS]}"


def main(models: Path, folder: Path, names: list[str]) -> None:
    """Write the shapes of each model, or only of the named ones; other results are kept."""
    release = version("vllm").partition("+")[0]
    file = folder / f"models.vllm-{release}.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    prepare()
    listed = yaml.safe_load(models.read_text(encoding="utf-8"))
    for name in names or listed:
        start = time.monotonic()
        try:
            found[name] = answer(listed[name])
        except Exception as problem:
            found[name] = {"refused": said(problem)}
        print(
            f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True
        )
        rows = [
            f"{json.dumps(each)}: {json.dumps(found[each])}"
            for each in listed
            if each in found
        ]
        file.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    main(given.models, given.folder, given.names)
