"""The words with which a size that vLLM can't divide is refused."""

from typing import Any

import pytest
from benchrun.sizing import ServeArgs, model_shape, refusals
from benchrun_client.engines import ENGINES
from unit.sizing.configs import LLAMA_8B

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    ("size", "weights", "words"),
    [
        (29_568, AWQ, "an MLP of 29,568 in groups of 128; possible:"),
        (9732, None, "an MLP of 9,732; possible:"),
    ],
)
def test_groups_are_named_where_weights_have_them(
    size: int, weights: dict[str, Any] | None, words: str
) -> None:
    config = LLAMA_8B | {"intermediate_size": size, "quantization_config": weights}
    args = ServeArgs.of(["--tensor-parallel-size=8"], ENGINES["VLLM"])
    [refusal] = refusals(model_shape(config), args)
    assert words in refusal
