"""The shape of a cache, as config.json tells it."""

from collections import Counter

import pytest
from benchrun.sizing import MAX_LAYERS, UnknownShape, model_shape
from hypothesis import given, strategies as st
from unit.sizing import configs, published
from unit.sizing.configs import LLAMA_8B, Config


def counted(config: Config) -> Counter[tuple[str, int, int, int | None]]:
    """Layers that are the same, and how many."""
    return Counter(
        (layer.kind, layer.heads, layer.values, layer.window_tokens)
        for layer in model_shape(config).layers
    )


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        pytest.param(
            configs.QWEN_32B,
            {("Full", 8, 256, None): 64},
            id="a window that is switched off",
        ),
        pytest.param(
            configs.LLAMA_8B,
            {("Full", 8, 256, None): 32},
            id="head size from the hidden size",
        ),
        pytest.param(
            configs.DEEPSEEK_V3, {("Latent", 1, 576, None): 61}, id="latent"
        ),
        pytest.param(
            configs.DEEPSEEK_V3
            | {"model_type": "deepseek_v32", "index_head_dim": 128},
            {("Latent", 1, 576, None): 61, ("Index", 1, 132, None): 61},
            id="latent with an indexer",
        ),
        pytest.param(
            configs.GEMMA_3_4B,
            {("Sliding", 4, 512, 1024): 29, ("Full", 4, 512, None): 5},
            id="defaults of the class",
        ),
        pytest.param(
            configs.GPT_OSS_20B,
            {("Sliding", 8, 128, 128): 12, ("Full", 8, 128, None): 12},
            id="listed layer types",
        ),
        pytest.param(
            configs.MISTRAL_7B,
            {("Sliding", 8, 256, 4096): 32},
            id="a window in every layer",
        ),
        pytest.param(
            configs.QWEN3_NEXT,
            {("State", 0, 0, None): 36, ("Full", 2, 512, None): 12},
            id="linear attention",
        ),
        pytest.param(
            configs.GPT_2, {("Full", 12, 128, None): 12}, id="other names"
        ),
        pytest.param(
            configs.LLAMA_8B
            | {"layer_types": ["chunked_attention", "full_attention"] * 16},
            {("Full", 8, 256, None): 32},
            id="chunks keep every token",
        ),
        pytest.param(
            {**configs.LLAMA_8B, "model_type": "falcon", "multi_query": True},
            {("Full", 1, 256, None): 32},
            id="one KV head",
        ),
        pytest.param(
            configs.LLAMA_8B
            | {"hybrid_override_pattern": "M-M*E", "num_hidden_layers": 5},
            {("State", 0, 0, None): 2, ("Full", 8, 256, None): 1},
            id="a pattern of letters",
        ),
        pytest.param(
            configs.QWEN_32B
            | {
                "use_sliding_window": True,
                "sliding_window": 4096,
                "max_window_layers": 60,
            },
            {("Full", 8, 256, None): 60, ("Sliding", 8, 256, 4096): 4},
            id="a window in the last layers",
        ),
        pytest.param(
            configs.LLAMA_8B | {"num_kv_shared_layers": 20},
            {("Full", 8, 256, None): 12},
            id="layers without their own",
        ),
    ],
)
def test_layers(
    config: Config, layers: dict[tuple[str, int, int, int | None], int]
) -> None:
    assert counted(config) == Counter(layers)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        pytest.param(configs.LLAMA_8B, 131_072, id="newer scaling is in it"),
        pytest.param(
            configs.LLAMA_8B
            | {
                "max_position_embeddings": 4096,
                "rope_scaling": {"type": "linear", "factor": 4.0},
            },
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
        (
            {
                "quant_method": "compressed-tensors",
                "kv_cache_scheme": {"num_bits": 8, "type": "float"},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "modelopt",
                "quantization": {"kv_cache_quant_algo": "FP8"},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "modelopt",
                "kv_cache_scheme": {"num_bits": 4, "type": "float"},
            },
            "nvfp4",
        ),
        ({"quant_method": "fp8"}, None),
    ],
)
def test_a_checkpoint_may_ask_for_a_type_of_its_cache(
    quantization: Config, dtype: str | None
) -> None:
    assert (
        model_shape(
            configs.LLAMA_8B | {"quantization_config": quantization}
        ).cache_dtype
        == dtype
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({}, "has no model_type", id="empty"),
        pytest.param(
            configs.LLAMA_8B | {"num_attention_heads": "32"},
            "num_attention_heads is '32'",
            id="a word",
        ),
        pytest.param(
            configs.LLAMA_8B | {"layer_types": ["telepathy"] * 32},
            "telepathy",
            id="unknown layers",
        ),
        pytest.param(
            configs.LLAMA_8B | {"kv_lora_rank": 256},
            "latent attention",
            id="unknown latent attention",
        ),
        pytest.param(
            configs.LLAMA_8B | {"is_encoder_decoder": True},
            "encoder",
            id="encoder and decoder",
        ),
        pytest.param(
            configs.DEEPSEEK_V3 | {"compress_ratios": [4]},
            "compress_ratios",
            id="compressed",
        ),
        pytest.param(
            configs.LLAMA_8B | {"layer_types": ["mamba"] * 32},
            "no layer",
            id="no cache at all",
        ),
    ],
)
def test_an_unknown_value_is_an_error(config: Config, message: str) -> None:
    with pytest.raises(UnknownShape, match=message):
        model_shape(config)


def test_ignored_layers_are_reported() -> None:
    assert "36 layers keep a state" in model_shape(configs.QWEN3_NEXT).caveats[0]
    assert (
        "speculative"
        in model_shape(
            configs.DEEPSEEK_V3 | {"num_nextn_predict_layers": 1}
        ).caveats[0]
    )
    assert model_shape(configs.LLAMA_8B).caveats == ()


WINDOWED = configs.MISTRAL_7B


@pytest.mark.parametrize("name", ["num_hidden_layers", "num_attention_heads"])
@pytest.mark.parametrize("value", ["32", -1, True, 1.5, [32], {"a": 1}])
def test_a_number_that_is_none_is_named(name: str, value: object) -> None:
    with pytest.raises(UnknownShape, match=f"{name} is "):
        model_shape(LLAMA_8B | {name: value})


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "num_attention_heads", "hidden_size"]
)
def test_a_number_that_is_taken_away_is_named(name: str) -> None:
    with pytest.raises(UnknownShape, match=f"config.json has no {name}"):
        model_shape(LLAMA_8B | {name: None})


def test_a_number_that_is_left_out_is_that_of_the_class() -> None:
    """As in vLLM: null is another thing than nothing."""
    plain = {"model_type": "mistral", "torch_dtype": "bfloat16"}
    (layer,) = {*model_shape(plain).layers}
    assert (layer.kind, layer.heads, layer.window_tokens) == ("Sliding", 8, 4096)
    without = plain | {"sliding_window": None, "num_key_value_heads": None}
    (layer,) = {*model_shape(without).layers}
    assert (layer.kind, layer.heads) == ("Full", 32)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model_type": None}, id="no type"),
        pytest.param({"model_type": 7}, id="a type that is a number"),
        pytest.param({"model_type": "plamo2"}, id="an unknown type"),
        pytest.param(
            {"model_type": "mllama_text_model"}, id="another unknown type"
        ),
        pytest.param({"architectures": ["LlamaForCausalLMEagle3"]}, id="a draft"),
        pytest.param(
            {"architectures": "LlamaForCausalLM"}, id="architectures in a word"
        ),
        pytest.param({"cross_attention_layers": [3, 8]}, id="layers that cross"),
        pytest.param({"layer_kinds": [0] * 32}, id="an unknown entry a layer"),
        pytest.param(
            {"whatever": [0] * 32}, id="an entry a layer of unknown meaning"
        ),
        pytest.param({"block_configs": [{}] * 32}, id="blocks of another type"),
        pytest.param(
            {"rope_scaling": {"rope_type": 3}}, id="a RoPE type that is a number"
        ),
    ],
)
def test_what_is_not_known_is_an_error(changes: Config) -> None:
    with pytest.raises(UnknownShape):
        model_shape(LLAMA_8B | changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"use_cla": True}, "use_cla"),
        ({"cla_share_factor": 2, "use_cla": True}, "cla_share"),
    ],
)
def test_a_key_that_may_decide_is_named(changes: Config, named: str) -> None:
    (caveat,) = model_shape(LLAMA_8B | changes).caveats
    assert named in caveat


@pytest.mark.parametrize("value", [None, False, 0, [], ""])
def test_a_key_that_is_off_decides_nothing(value: object) -> None:
    assert model_shape(LLAMA_8B | {"use_cla": value}).caveats == ()


def test_a_wrapper_that_is_not_known_is_named() -> None:
    (caveat,) = model_shape(
        {"model_type": "new_vl", "text_config": LLAMA_8B}
    ).caveats
    assert "new_vl" in caveat


@pytest.mark.parametrize(
    ("config", "named"),
    [
        pytest.param(
            LLAMA_8B | {"num_key_value_heads": [8] * 32},
            "num_key_value_heads",
            id="KV heads a layer",
        ),
        pytest.param(
            LLAMA_8B | {"num_key_value_heads": 0},
            "num_key_value_heads",
            id="no KV head",
        ),
        pytest.param(
            LLAMA_8B | {"head_dim": "128"}, "head_dim", id="a head size in words"
        ),
        pytest.param(
            LLAMA_8B | {"hidden_size": 31},
            "num_attention_heads 32",
            id="heads of no size",
        ),
        pytest.param(
            LLAMA_8B | {"v_head_dim": 64},
            "v_head_dim",
            id="values of another size than keys",
        ),
        pytest.param(
            LLAMA_8B | {"max_position_embeddings": "long"},
            "max_position_embeddings",
            id="a length in words",
        ),
        pytest.param(
            LLAMA_8B | {"max_position_embeddings": 0},
            "max_position_embeddings",
            id="no length",
        ),
        pytest.param(
            LLAMA_8B | {"rope_scaling": "linear"},
            "rope_scaling",
            id="RoPE in a word",
        ),
        pytest.param(
            LLAMA_8B | {"rope_scaling": {"type": "linear", "factor": "4"}},
            "factor",
            id="a factor in words",
        ),
        pytest.param(
            LLAMA_8B | {"num_kv_shared_layers": 32},
            "num_kv_shared_layers",
            id="all layers share",
        ),
        pytest.param(
            LLAMA_8B | {"num_kv_shared_layers": 40},
            "num_kv_shared_layers",
            id="more share than there are",
        ),
        pytest.param(
            LLAMA_8B | {"num_hidden_layers": MAX_LAYERS + 1},
            "num_hidden_layers",
            id="layers without end",
        ),
        pytest.param(
            LLAMA_8B | {"layer_types": "full_attention"},
            "layer_types",
            id="layer types in a word",
        ),
        pytest.param(
            LLAMA_8B | {"layer_types": ["full_attention"] * 31},
            "31 layers, but num_hidden_layers is 32",
            id="a layer untold",
        ),
        pytest.param(
            LLAMA_8B | {"hybrid_override_pattern": "M*"},
            "2 layers, but num_hidden_layers is 32",
            id="a pattern too short",
        ),
        pytest.param(
            LLAMA_8B | {"hybrid_override_pattern": "M*?" * 11},
            "'\\?'",
            id="an unknown letter",
        ),
        pytest.param(
            LLAMA_8B | {"layers_block_type": ["hybrid"] * 32},
            "'hybrid'",
            id="two kinds in a layer",
        ),
        pytest.param(
            LLAMA_8B | {"full_attention_interval": "4"},
            "full_attention_interval",
            id="an interval in words",
        ),
        pytest.param(
            LLAMA_8B | {"attn_layer_indices": 9},
            "attn_layer_indices",
            id="one place in place of a list",
        ),
        pytest.param(
            LLAMA_8B | {"attn_type_list": "1"},
            "attn_type_list",
            id="kinds in a word",
        ),
        pytest.param(
            LLAMA_8B | {"linear_attn_config": []},
            "linear_attn_config",
            id="a list in place of an object",
        ),
        pytest.param(
            WINDOWED | {"sliding_window": "4096"},
            "sliding_window",
            id="a window in words",
        ),
        pytest.param(
            WINDOWED | {"sliding_window_pattern": [1]},
            "sliding_window_pattern",
            id="a pattern in a list",
        ),
        pytest.param(
            configs.DEEPSEEK_V3 | {"qk_rope_head_dim": None},
            "qk_rope_head_dim",
            id="half of a latent vector",
        ),
        pytest.param(
            configs.DEEPSEEK_V3 | {"v_head_dim": None},
            "v_head_dim",
            id="plain values of a latent model",
        ),
        pytest.param(
            published.JAMBA_MINI | {"attn_layer_offset": 8},
            "no layer",
            id="a place beyond the period",
        ),
        pytest.param(
            {"text_config": {"model_type": "x"}},
            "model_type 'x'",
            id="an empty text part",
        ),
        pytest.param(
            LLAMA_8B | {"text_config": {"is_encoder_decoder": True}},
            "encoder",
            id="an encoder within",
        ),
    ],
)
def test_an_unreadable_file_is_named(config: Config, named: str) -> None:
    with pytest.raises(UnknownShape, match=named):
        model_shape(config)


@pytest.mark.parametrize("nothing", [None, 0, False])
@pytest.mark.parametrize(
    "name",
    [
        "head_dim",
        "sliding_window",
        "num_kv_shared_layers",
        "index_head_dim",
        "num_nextn_predict_layers",
    ],
)
def test_nothing_may_be_said_in_three_ways(name: str, nothing: object) -> None:
    assert model_shape(LLAMA_8B | {name: nothing}) == model_shape(LLAMA_8B)


WORDS = st.sampled_from(
    sorted(
        {
            "quantization_config",
            "quantization",
            "kv_cache_scheme",
            "num_bits",
            "layer_types",
            "kda_layers",
            "factor",
        }
        | {
            key
            for module in (configs, published)
            for config in vars(module).values()
            if isinstance(config, dict)
            for key in (*config, *config.get("text_config", {}))
            if isinstance(key, str) and not key.startswith("_")
        }
    )
)
SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers(-2, 64)
    | st.floats()
    | st.text(max_size=3)
    | st.just(10**400)
)
GARBAGE = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
    ),
)


@given(
    st.dictionaries(WORDS, GARBAGE, max_size=4),
    st.sampled_from([LLAMA_8B, WINDOWED, configs.DEEPSEEK_V3]),
)
def test_whatever_stands_there_the_answer_is_a_shape_or_an_error_of_ours(
    changes: Config, base: Config
) -> None:
    try:
        shape = model_shape(base | changes)
    except UnknownShape:
        return
    assert all(
        layer.values > 0 and layer.heads > 0 for layer in shape.caching_layers
    )
    assert shape.query_heads > 0
