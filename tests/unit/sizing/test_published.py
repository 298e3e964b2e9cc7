"""Bytes a token of published models: layers x KV heads x (key + value) x bytes of a number, written
out by hand."""

import pytest
from benchrun.sizing import model_shape
from unit.sizing import configs, published
from unit.sizing.configs import Config
from unit.sizing.sized import sized

GIB = 2**30


@pytest.mark.parametrize(
    ("config", "token_bytes"),
    [
        pytest.param(
            published.LLAMA_2_7B,
            32 * 32 * 2 * 128 * 2,
            id="Llama 2 7B, every head its own",
        ),
        pytest.param(configs.LLAMA_8B, 32 * 8 * 2 * 128 * 2, id="Llama 3.1 8B"),
        pytest.param(
            published.LLAMA_3_70B, 80 * 8 * 2 * 128 * 2, id="Llama 3.1 70B"
        ),
        pytest.param(
            published.LLAMA_4_SCOUT,
            48 * 8 * 2 * 128 * 2,
            id="Llama 4 Scout, text beside vision",
        ),
        pytest.param(published.QWEN_2_5_7B, 28 * 4 * 2 * 128 * 2, id="Qwen2.5 7B"),
        pytest.param(
            published.QWEN_3_30B_A3B,
            48 * 4 * 2 * 128 * 2,
            id="Qwen3 30B A3B, heads larger than hidden / heads",
        ),
        pytest.param(
            published.DEEPSEEK_V2_LITE, 27 * (512 + 64) * 2, id="DeepSeek V2 Lite"
        ),
        pytest.param(configs.DEEPSEEK_V3, 61 * (512 + 64) * 2, id="DeepSeek V3"),
        pytest.param(
            configs.DEEPSEEK_V3 | {"model_type": "kimi_k2"},
            61 * (512 + 64) * 2,
            id="Kimi K2",
        ),
        pytest.param(
            published.KIMI_LINEAR,
            7 * (512 + 64) * 2,
            id="Kimi Linear, three layers of four keep a state",
        ),
        pytest.param(
            published.MIXTRAL_8X7B,
            32 * 8 * 2 * 128 * 2,
            id="Mixtral 8x7B, whose experts keep nothing",
        ),
        pytest.param(
            published.GEMMA_2_9B,
            42 * 8 * 2 * 256 * 2,
            id="Gemma 2 9B, stored in 32 bits",
        ),
        pytest.param(
            published.GEMMA_3_27B, 62 * 16 * 2 * 128 * 2, id="Gemma 3 27B"
        ),
        pytest.param(
            published.GPT_OSS_120B, 36 * 8 * 2 * 64 * 2, id="gpt-oss 120B"
        ),
        pytest.param(
            published.COMMAND_R_7B, 32 * 8 * 2 * 128 * 2, id="Command R7B"
        ),
        pytest.param(
            published.FALCON_7B, 32 * 1 * 2 * 64 * 2, id="Falcon 7B, one KV head"
        ),
        pytest.param(
            published.FALCON_40B,
            60 * 8 * 2 * 64 * 2,
            id="Falcon 40B, which says multi_query and means groups",
        ),
        pytest.param(
            published.JAMBA_MINI,
            4 * 8 * 2 * 128 * 2,
            id="Jamba Mini, one layer of eight",
        ),
        pytest.param(
            published.BAMBA_9B,
            3 * 8 * 2 * 128 * 2,
            id="Bamba 9B, three layers by number",
        ),
        pytest.param(
            published.MINIMAX_TEXT,
            10 * 8 * 2 * 128 * 2,
            id="MiniMax Text, a list of ones and zeros",
        ),
        pytest.param(
            published.NEMOTRON_H_8B,
            4 * 8 * 2 * 128 * 2,
            id="Nemotron H 8B, a row of letters",
        ),
        pytest.param(
            published.CHATGLM_3_6B, 28 * 2 * 2 * 128 * 2, id="ChatGLM3 6B"
        ),
        pytest.param(configs.GPT_2, 12 * 12 * 2 * 64 * 2, id="GPT-2"),
        pytest.param(
            configs.QWEN3_NEXT,
            12 * 2 * 2 * 256 * 2,
            id="Qwen3 Next, one layer of four",
        ),
    ],
)
def test_a_token_takes_the_published_bytes(
    config: Config, token_bytes: int
) -> None:
    assert sized(config).token_bytes == token_bytes


@pytest.mark.parametrize(
    ("config", "window", "near_layers", "far_layers"),
    [
        pytest.param(
            published.GEMMA_2_9B, 4096, 21, 21, id="Gemma 2: every second layer"
        ),
        pytest.param(
            published.GEMMA_3_27B, 1024, 52, 10, id="Gemma 3: five of six"
        ),
        pytest.param(
            published.GPT_OSS_120B, 128, 18, 18, id="gpt-oss: every second layer"
        ),
        pytest.param(
            published.COMMAND_R_7B,
            4097,
            24,
            8,
            id="Command R7B: three of four, and the token itself",
        ),
        pytest.param(configs.MISTRAL_7B, 4096, 32, 0, id="Mistral 0.1: all"),
    ],
)
def test_layers_with_a_window_add_nothing_beyond_it(
    config: Config, window: int, near_layers: int, far_layers: int
) -> None:
    found = sized(config)
    counts = {row.layer.window_tokens: row.count for row in found.rows}
    assert counts.get(window) == near_layers
    assert counts.get(None, 0) == far_layers
    assert (
        found.far_token_bytes * (near_layers + far_layers)
        == found.token_bytes * far_layers
    )


@pytest.mark.parametrize(
    ("flags", "divisor"),
    [
        pytest.param(("--kv-cache-dtype=fp8",), 2, id="FP8"),
        pytest.param(("--kv-cache-dtype=fp8_e4m3",), 2, id="FP8 e4m3"),
        pytest.param(("--kv-cache-dtype=fp8_e5m2",), 2, id="FP8 e5m2"),
        pytest.param(("--kv-cache-dtype=auto",), 1, id="as the model computes"),
        pytest.param(
            ("--kv-cache-dtype=bfloat16", "--dtype=float32"),
            1,
            id="said of the cache itself",
        ),
        pytest.param(("--dtype=half",), 1, id="half precision"),
    ],
)
def test_a_smaller_type_takes_a_share(flags: tuple[str, ...], divisor: int) -> None:
    for config in (
        published.LLAMA_3_70B,
        published.GEMMA_3_27B,
        published.MIXTRAL_8X7B,
    ):
        assert (
            sized(config, *flags).token_bytes * divisor == sized(config).token_bytes
        )


@pytest.mark.parametrize(
    ("config", "flags", "tokens", "gib"),
    [
        pytest.param(
            published.LLAMA_3_70B, (), 131_072, 40, id="Llama 70B at its longest"
        ),
        pytest.param(
            published.LLAMA_3_70B,
            ("--kv-cache-dtype=fp8",),
            131_072,
            20,
            id="the same in FP8",
        ),
        pytest.param(
            published.MIXTRAL_8X7B, (), 32_768, 4, id="Mixtral at its longest"
        ),
        pytest.param(configs.LLAMA_8B, (), 8192, 1, id="Llama 8B: a GiB for 8192"),
        pytest.param(
            published.LLAMA_2_7B,
            (),
            4096,
            2,
            id="Llama 2: four times as much a token",
        ),
    ],
)
def test_a_sequence_without_windows_takes_token_times_length(
    config: Config, flags: tuple[str, ...], tokens: int, gib: int
) -> None:
    assert sized(config, *flags).pool.sequence_bytes(tokens) == gib * GIB


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        (published.LLAMA_2_7B, 4096),
        (published.LLAMA_3_70B, 131_072),
        (published.LLAMA_4_SCOUT, 10_485_760),
        (published.QWEN_2_5_7B, 32_768),
        (published.KIMI_LINEAR, 1_048_576),
        (published.GEMMA_2_9B, 8192),
        (published.GEMMA_3_27B, 131_072),
        (published.GPT_OSS_120B, 131_072),
        (published.CHATGLM_3_6B, 8192),
        (published.FALCON_7B, 2048),
        (
            published.LLAMA_2_7B
            | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            8192,
        ),
        (
            published.LLAMA_2_7B
            | {"rope_parameters": {"rope_type": "linear", "factor": 1.5}},
            6144,
        ),
        (
            published.LLAMA_2_7B
            | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
            4096,
        ),
        (published.LLAMA_2_7B | {"seq_length": 2048}, 2048),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_the_longest_sequence_it_is_made_for(
    config: Config, tokens: int | None
) -> None:
    assert model_shape(config).context_tokens == tokens
