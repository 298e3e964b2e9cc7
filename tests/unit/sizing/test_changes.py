"""What makes a cache smaller or larger is said."""

from __future__ import annotations

import pytest
from benchrun.sizing.sizing import changes
from unit.sizing import configs
from unit.sizing.configs import Config
from unit.sizing.sized import sized


@pytest.mark.parametrize(
    ("config", "flags", "said"),
    [
        pytest.param(configs.QWEN_32B, (), "40 query heads share 8 KV heads, a cache of 1/5 the size", id="GQA"),
        pytest.param(
            configs.QWEN_32B, ("-tp=16",), "8 KV heads on 16 GPUs; each is kept 2 times", id="copies of heads"
        ),
        pytest.param(configs.DEEPSEEK_V3, (), "one vector of 576 numbers a token", id="MLA"),
        pytest.param(configs.DEEPSEEK_V3, (), "a cache of 1/71.1 the size", id="MLA against plain heads"),
        pytest.param(configs.DEEPSEEK_V3, ("-tp=8",), "each of 8 GPUs keeps a copy", id="copies of vectors"),
        pytest.param(configs.GEMMA_3_4B, (), "29 of 34 layers keep the last 1,024 tokens", id="window"),
        pytest.param(
            configs.GEMMA_3_4B,
            ("--disable-hybrid-kv-cache-manager",),
            "but here they keep all",
            id="window without gain",
        ),
        pytest.param(configs.LLAMA_8B, ("--kv-cache-dtype=fp8",), "fp8, set by --kv-cache-dtype", id="FP8"),
        pytest.param(
            configs.LLAMA_8B | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}},
            (),
            "fp8, set by the checkpoint",
            id="FP8 of the checkpoint",
        ),
        pytest.param(
            configs.LLAMA_8B | {"num_kv_shared_layers": 20}, (), "20 layers use the cache of another", id="shared"
        ),
        pytest.param(configs.QWEN3_NEXT, (), "An estimate: 36 layers keep a state", id="state"),
        pytest.param(
            configs.LLAMA_8B, ("-dcp=2",), "An estimate: --decode-context-parallel-size", id="a flag not counted"
        ),
    ],
)
def test_said(config: Config, flags: tuple[str, ...], said: str) -> None:
    assert said in " ".join(changes(sized(config, *flags)))


def test_plain_attention_has_nothing_to_say() -> None:
    assert changes(sized(configs.GPT_2)) == ()


@pytest.mark.parametrize(
    ("config", "flags", "sentences"),
    [
        pytest.param(
            configs.LLAMA_8B | {"num_key_value_heads": 1},
            (),
            ["Multi-query attention: 32 query heads share one KV head, a cache of 1/32 the size."],
            id="one KV head",
        ),
        pytest.param(
            configs.LLAMA_8B,
            ("-tp=32", "--kv-cache-dtype=fp8"),
            [
                "Grouped-query attention (GQA): 32 query heads share 8 KV heads, a cache of 1/4 the size.",
                "Quantised cache: fp8, set by --kv-cache-dtype; half of what 16-bit numbers take, or less.",
                "Tensor parallelism: 8 KV heads on 32 GPUs; each is kept 4 times.",
            ],
            id="groups, FP8 and copies, in this order",
        ),
        pytest.param(
            configs.LLAMA_8B,
            ("-tp=8",),
            ["Grouped-query attention (GQA): 32 query heads share 8 KV heads, a cache of 1/4 the size."],
            id="a head a GPU is no copy",
        ),
        pytest.param(
            configs.DEEPSEEK_V3 | {"index_head_dim": 128},
            ("-tp=2",),
            [
                "Latent attention (MLA): a layer keeps one vector of 576 numbers a token in place of keys and values of 128 "
                "heads, a cache of 1/71.1 the size. It can't be divided by heads.",
                "Sparse attention: beside it each layer keeps one key a token for the indexer, which selects the tokens to attend to.",
                "Tensor parallelism: each of 2 GPUs keeps a copy of the latent vectors; more GPUs hold no more tokens.",
            ],
            id="latent vectors with an indexer",
        ),
        pytest.param(
            configs.MISTRAL_7B,
            ("--max-num-batched-tokens=1000",),
            [
                "Grouped-query attention (GQA): 32 query heads share 8 KV heads, a cache of 1/4 the size.",
                "Sliding window: 32 of 32 layers keep the last 4,096 tokens, and while prompts are read up to 2,000 more "
                "(max-num-batched-tokens x steps in flight).",
            ],
            id="a window in every layer",
        ),
        pytest.param(
            configs.GPT_OSS_20B,
            ("--disable-hybrid-kv-cache-manager",),
            [
                "Grouped-query attention (GQA): 64 query heads share 8 KV heads, a cache of 1/8 the size.",
                "Sliding window: 12 of 24 layers attend to the last 128 tokens, but here they keep all: vLLM allocates for "
                "every token where its hybrid cache manager is off.",
            ],
            id="a window without gain",
        ),
        pytest.param(
            configs.GPT_2 | {"num_kv_shared_layers": 2},
            ("-dcp=2",),
            [
                "2 layers use the cache of another layer and keep nothing.",
                "An estimate: --decode-context-parallel-size is not counted.",
            ],
            id="layers that share, and a flag that is not counted",
        ),
    ],
)
def test_every_sentence_in_order(config: Config, flags: tuple[str, ...], sentences: list[str]) -> None:
    assert list(changes(sized(config, *flags))) == sentences
