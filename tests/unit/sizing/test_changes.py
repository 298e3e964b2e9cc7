"""What makes a cache smaller or larger is said."""

from __future__ import annotations

import pytest
from benchrun.sizing.changes import changes
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
        pytest.param(configs.LLAMA_8B, ("--kv-cache-dtype=fp8",), "fp8, by --kv-cache-dtype", id="FP8"),
        pytest.param(
            configs.LLAMA_8B | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}},
            (),
            "fp8, as the checkpoint asks for",
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
