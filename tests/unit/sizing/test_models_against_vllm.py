"""Published models of each family that vLLM supports, held against what vLLM itself made of them.

The answers are in models.vllm-*.json. dev/engine_shapes.py writes them, and tests/long writes them
again."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.sizing import (
    ModelShape,
    ServeArgs,
    UnknownShape,
    defaults,
    engine_of,
    model_shape,
    refusals,
    token_bytes_per_gpu,
)
from benchrun.sizing.known_models import ENCODERS, OLDER, STATES_ONLY
from benchrun_client.engines import ENGINES
from kit.every_case import every

VLLM = ENGINES["VLLM"]

FOLDER = Path(__file__).parent
MODELS: Mapping[str, dict[str, Any]] = yaml.load(
    (FOLDER / "models.yaml").read_text(), yaml.CSafeLoader
)
TOLD: Mapping[str, dict[str, Any]] = json.loads(
    (FOLDER / "models.vllm-0.32.0.json").read_text()
)
READ = {name: each for name, each in TOLD.items() if "refused" not in each}
BUILT = {
    name: each for name, each in READ.items() if isinstance(each["kept"]["1"], list)
}
UNSIZED = (*ENCODERS, *STATES_ONLY, "whisper")
"""Types that have no cache of the kind that is sized, which is an error."""
NOT_A_DEMAND = (
    "backend",
    "kernel",
    "meta tensor",
    "library",
    "has no attribute",
    "supported only for",
    "modulo by zero",
)
"""Words of what fails because this is a CPU without weights and all libraries."""


def text_type(config: Mapping[str, Any]) -> str:
    part = config.get("text_config") or config.get("llm_config") or config
    return str(part["model_type"])


SIZED = [name for name in MODELS if text_type(MODELS[name]) not in UNSIZED]


def test_the_table_is_large_and_whole() -> None:
    """More than sixty models, and one of each type that is known."""
    assert TOLD.keys() == MODELS.keys()
    assert len(BUILT) >= 90
    assert {text_type(config) for config in MODELS.values()} | {*OLDER} == {
        *defaults()
    }


@pytest.mark.parametrize("name", [each for each in MODELS if each not in SIZED])
def test_what_has_no_such_cache_is_an_error(name: str) -> None:
    with pytest.raises(UnknownShape):
        model_shape(MODELS[name])


def sizes(shape: ModelShape, gpus: int) -> Counter[tuple[int | None, float]]:
    """Layers that keep so many bytes a token on each GPU, by window."""
    engine = engine_of(
        ServeArgs.of([f"--tensor-parallel-size={gpus}"], VLLM), shape
    )
    return Counter(
        (each.window_tokens, float(token_bytes_per_gpu(each, engine)))
        for each in shape.caching_layers
    )


def told(kept: list[Any]) -> Counter[tuple[int | None, float]]:
    """The same of vLLM, which keeps every token where it attends in chunks."""
    found: Counter[tuple[int | None, float]] = Counter()
    for kind, window, token_bytes, count in kept:
        if kind != "MambaSpec":
            found[
                None if kind == "ChunkedLocalAttentionSpec" else window, token_bytes
            ] += count
    return found


@every("name", [each for each in SIZED if each in BUILT])
def test_each_layer_keeps_what_it_keeps_in_vllm(name: str) -> None:
    shape = model_shape(MODELS[name])
    for gpus, kept in BUILT[name]["kept"].items():
        if isinstance(kept, list):
            assert sizes(shape, int(gpus)) == told(kept)
    states = sum(
        count for kind, *_, count in BUILT[name]["kept"]["1"] if kind == "MambaSpec"
    )
    assert sum(layer.kind == "State" for layer in shape.layers) == states


@every("name", [each for each in SIZED if each in READ])
def test_its_settings_are_those_of_vllm(name: str) -> None:
    answer = READ[name]
    shape = model_shape(MODELS[name])
    engine = engine_of(ServeArgs.of((), VLLM), shape)
    assert engine.max_tokens == answer["context"]
    assert shape.context_tokens == answer["limit"]
    assert shape.query_heads == answer["query_heads"]
    assert shape.hidden_layers == answer["layers"]
    assert shape.experts == answer["experts"]
    assert engine.cache_dtype in (answer["dtype"], shape.cache_dtype)


@every("name", [each for each in SIZED if each in READ])
def test_what_vllm_refuses_is_refused_and_nothing_else(name: str) -> None:
    answer = READ[name]
    # Its kernels on CPUs divide weights within their groups, those on GPUs do not.
    shape = replace(model_shape(MODELS[name]), weights_group=1)
    for gpus, kept in answer["kept"].items():
        theirs = answer["verified"][gpus] or (
            kept if isinstance(kept, str) else None
        )
        if theirs is not None and any(word in theirs for word in NOT_A_DEMAND):
            theirs = None
        ours = refusals(
            shape, ServeArgs.of([f"--tensor-parallel-size={gpus}"], VLLM)
        )
        assert bool(ours) == (theirs is not None), (gpus, ours, theirs)
    spread = refusals(shape, ServeArgs.of(["--enable-expert-parallel"], VLLM))
    assert bool(spread) == (answer["expert_parallel"] is not None)
