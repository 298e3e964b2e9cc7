"""The shape of a cache, as config.json tells it."""

from __future__ import annotations

from collections import Counter

import pytest
from benchrun.sizing.config_json import model_shape
from benchrun.sizing.layers import Layer, UnknownShape
from unit.sizing import configs
from unit.sizing.configs import Config


def counted(config: Config) -> Counter[tuple[str, int, int, int | None]]:
    """Layers that are the same, and how many."""
    return Counter((layer.kind, layer.heads, layer.values, layer.window_tokens) for layer in model_shape(config).layers)


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        pytest.param(configs.QWEN_32B, {("Full", 8, 256, None): 64}, id="a window that is switched off"),
        pytest.param(configs.LLAMA_8B, {("Full", 8, 256, None): 32}, id="head size from the hidden size"),
        pytest.param(configs.DEEPSEEK_V3, {("Latent", 1, 576, None): 61}, id="latent"),
        pytest.param(
            configs.DEEPSEEK_V3 | {"model_type": "deepseek_v32", "index_head_dim": 128},
            {("Latent", 1, 576, None): 61, ("Index", 1, 132, None): 61},
            id="latent with an indexer",
        ),
        pytest.param(
            configs.GEMMA_3_4B, {("Sliding", 4, 512, 1024): 29, ("Full", 4, 512, None): 5}, id="defaults of the class"
        ),
        pytest.param(
            configs.GPT_OSS_20B, {("Sliding", 8, 128, 128): 12, ("Full", 8, 128, None): 12}, id="listed layer types"
        ),
        pytest.param(configs.MISTRAL_7B, {("Sliding", 8, 256, 4096): 32}, id="a window in every layer"),
        pytest.param(
            configs.QWEN3_NEXT, {("State", 0, 0, None): 36, ("Full", 2, 512, None): 12}, id="linear attention"
        ),
        pytest.param(configs.GPT_2, {("Full", 12, 128, None): 12}, id="other names"),
        pytest.param(
            configs.LLAMA_8B | {"layer_types": ["chunked_attention", "full_attention"] * 16},
            {("Full", 8, 256, None): 32},
            id="chunks keep every token",
        ),
        pytest.param(
            {**configs.LLAMA_8B, "model_type": "falcon", "multi_query": True},
            {("Full", 1, 256, None): 32},
            id="one KV head",
        ),
        pytest.param(
            configs.LLAMA_8B | {"hybrid_override_pattern": "M-M*E", "num_hidden_layers": 5},
            {("State", 0, 0, None): 2, ("Full", 8, 256, None): 1},
            id="a pattern of letters",
        ),
        pytest.param(
            configs.QWEN_32B | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 60},
            {("Full", 8, 256, None): 60, ("Sliding", 8, 256, 4096): 4},
            id="a window in the last layers",
        ),
        pytest.param(
            configs.LLAMA_8B | {"num_kv_shared_layers": 20}, {("Full", 8, 256, None): 12}, id="layers without their own"
        ),
    ],
)
def test_layers(config: Config, layers: dict[tuple[str, int, int, int | None], int]) -> None:
    assert counted(config) == Counter(layers)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        pytest.param(configs.LLAMA_8B, 131_072, id="newer scaling is in it"),
        pytest.param(
            configs.LLAMA_8B | {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}},
            16_384,
            id="older scaling is not",
        ),
        pytest.param(configs.GEMMA_3_4B, 131_072, id="Gemma 3 has it scaled"),
        pytest.param({**configs.GPT_2, "n_positions": None}, None, id="not said"),
    ],
)
def test_longest_sequence(config: Config, tokens: int | None) -> None:
    assert model_shape(config).context_tokens == tokens


@pytest.mark.parametrize(
    ("quantization", "dtype"),
    [
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "nvfp4"),
        ({"quant_method": "fp8"}, None),
    ],
)
def test_a_checkpoint_may_ask_for_a_type_of_its_cache(quantization: Config, dtype: str | None) -> None:
    assert model_shape(configs.LLAMA_8B | {"quantization_config": quantization}).cache_dtype == dtype


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param({}, "does not say num_hidden_layers", id="empty"),
        pytest.param(configs.LLAMA_8B | {"num_attention_heads": "32"}, "num_attention_heads is '32'", id="a word"),
        pytest.param(configs.LLAMA_8B | {"layer_types": ["telepathy"] * 32}, "telepathy", id="unknown layers"),
        pytest.param(configs.LLAMA_8B | {"kv_lora_rank": 256}, "latent attention", id="unknown latent attention"),
        pytest.param(configs.LLAMA_8B | {"is_encoder_decoder": True}, "encoder", id="encoder and decoder"),
        pytest.param(configs.DEEPSEEK_V3 | {"compress_ratios": [4]}, "compresses", id="compressed"),
        pytest.param(configs.LLAMA_8B | {"layer_types": ["mamba"] * 32}, "no layer", id="no cache at all"),
    ],
)
def test_what_is_not_known_is_an_error_and_no_guess(config: Config, said: str) -> None:
    with pytest.raises(UnknownShape, match=said):
        model_shape(config)


def test_heads_fewer_than_gpus_are_kept_on_each() -> None:
    layer = Layer(kind="Full", heads=4, values=256)
    assert [layer.heads_per_gpu(gpus) for gpus in (1, 2, 4, 8)] == [4, 2, 1, 1]


def test_what_is_left_out_is_said() -> None:
    assert "36 layers keep a state" in model_shape(configs.QWEN3_NEXT).caveats[0]
    assert "speculative" in model_shape(configs.DEEPSEEK_V3 | {"num_nextn_predict_layers": 1}).caveats[0]
    assert model_shape(configs.LLAMA_8B).caveats == ()
