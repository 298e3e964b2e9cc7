"""A --max-model-len against what the model is made for."""

from dataclasses import replace

import pytest
from benchrun.sizing import ServeArgs, beyond_context, model_shape
from unit.golden_messages import golden
from unit.sizing import configs

SHAPE = replace(model_shape(configs.LLAMA_8B), context_tokens=8192)


@pytest.mark.parametrize("flags", [[], ["--max-model-len=8192"], ["--max-model-len=100"], ["--max-model-len=auto"]])
def test_a_length_within_the_context_has_no_remark(flags: list[str]) -> None:
    assert beyond_context(ServeArgs.of(flags), SHAPE, is_allowed=False) is None


def test_where_the_model_has_no_limit_nothing_is_beyond_it() -> None:
    shape = replace(SHAPE, context_tokens=None)
    assert beyond_context(ServeArgs.of(["--max-model-len=1m"]), shape, is_allowed=False) is None


def test_beyond_it_vllm_will_not_start_and_the_ways_out_are_reported() -> None:
    found = beyond_context(ServeArgs.of(["--max-model-len=8193"]), SHAPE, is_allowed=False)
    assert found is not None
    is_meant, sentence = found
    assert not is_meant
    golden(sentence)


@pytest.mark.parametrize(
    ("flags", "is_allowed"),
    [([], True), (["--hf-overrides={}"], False), (["--hf-overrides.rope_scaling.factor=4"], False)],
)
def test_allowing_a_longer_context_gives_a_warning(flags: list[str], is_allowed: bool) -> None:
    found = beyond_context(ServeArgs.of(["--max-model-len=16384", *flags]), SHAPE, is_allowed=is_allowed)
    assert found is not None
    is_meant, sentence = found
    assert is_meant
    golden(sentence)
