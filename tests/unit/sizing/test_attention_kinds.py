"""Which layer attends to what, key by key."""

from typing import Any

import pytest
from benchrun.sizing import (
    MOST,
    UnknownShape,
    attention_of_layers,
    number_if_any,
    value_if_any,
    whole,
    whole_if_any,
)
from kit.every_case import every
from unit.sizing.configs import Config

LETTERS = {"Full": "F", "Sliding": "S", "State": "_"}


def pattern(config: Config, *, model_type: str = "", count: int = 8) -> str:
    """One letter a layer: F attends to everything, S to a window, _ keeps a state."""
    return "".join(
        LETTERS[each.kind]
        for each in attention_of_layers(config, model_type=model_type, count=count)
    )


@every(
    ("config", "model_type", "layers"),
    [
        pytest.param({}, "llama", "FFFFFFFF", id="nothing said"),
        pytest.param(
            {"sliding_window": 9},
            "mistral",
            "SSSSSSSS",
            id="a window without a pattern",
        ),
        pytest.param(
            {"sliding_window": 0}, "mistral", "FFFFFFFF", id="a window of 0 is none"
        ),
        pytest.param(
            {"sliding_window": 9, "use_sliding_window": False},
            "mistral",
            "FFFFFFFF",
            id="switched off",
        ),
        pytest.param(
            {"sliding_window": 9},
            "qwen2",
            "FFFFFFFF",
            id="Qwen2 needs it switched on",
        ),
        pytest.param(
            {"sliding_window": 9}, "qwen3_moe", "FFFFFFFF", id="Qwen3, too"
        ),
        pytest.param(
            {"sliding_window": 9, "use_sliding_window": True},
            "qwen2",
            "SSSSSSSS",
            id="on, from the first",
        ),
        pytest.param(
            {
                "sliding_window": 9,
                "use_sliding_window": True,
                "max_window_layers": 3,
            },
            "qwen2",
            "FFFSSSSS",
            id="on, later",
        ),
        pytest.param({"sliding_window": 9}, "gemma2", "SFSFSFSF", id="Gemma 2"),
        pytest.param({"sliding_window": 9}, "gpt_oss", "SFSFSFSF", id="gpt-oss"),
        pytest.param(
            {"sliding_window": 9}, "gemma3_text", "SSSSSFSS", id="Gemma 3"
        ),
        pytest.param(
            {"sliding_window": 9}, "gemma3n_text", "SSSSFSSS", id="Gemma 3n"
        ),
        pytest.param(
            {"sliding_window": 9}, "cohere2", "SSSFSSSF", id="Command R7B"
        ),
        pytest.param({"sliding_window": 9}, "olmo3", "SSSFSSSF", id="OLMo 3"),
        pytest.param(
            {"sliding_window": 9, "sliding_window_pattern": 3},
            "gemma3_text",
            "SSFSSFSS",
            id="a number said",
        ),
        pytest.param(
            {"sliding_window": 9, "_sliding_window_pattern": 2},
            "gemma3_text",
            "SFSFSFSF",
            id="said privately",
        ),
        pytest.param(
            {"sliding_window": 9, "sliding_window_pattern": "LLG"},
            "exaone4",
            "SSFSSFSS",
            id="letters said",
        ),
        pytest.param(
            {"sliding_window": 9, "sliding_window_pattern": 1},
            "x",
            "FFFFFFFF",
            id="every layer is the last",
        ),
        pytest.param(
            {"full_attention_interval": 4},
            "qwen3_next",
            "___F___F",
            id="Qwen3 Next",
        ),
        pytest.param(
            {"attn_layer_period": 4, "attn_layer_offset": 1},
            "jamba",
            "_F___F__",
            id="Jamba",
        ),
        pytest.param(
            {"attn_layer_period": 4},
            "jamba",
            "F___F___",
            id="Jamba, from the first",
        ),
        pytest.param(
            {"attn_layer_indices": [0, 7]}, "bamba", "F______F", id="Bamba"
        ),
        pytest.param({"full_attn_idxs": [2, 5]}, "lfm2", "__F__F__", id="LFM2"),
        pytest.param(
            {"sliding_window": 9},
            "gemma4_text",
            "SSSSSFSF",
            id="Gemma 4 ends with one",
        ),
        pytest.param(
            {"attn_type_list": [0, 0, 1, 1, 0, 0, 0, 1]},
            "minimax",
            "__FF___F",
            id="MiniMax",
        ),
        pytest.param(
            {"linear_attn_config": {"kda_layers": [1, 2, 3, 5]}},
            "kimi_linear",
            "___F_FFF",
            id="Kimi, from 1",
        ),
        pytest.param(
            {"layer_types": ["full_attention", "linear_attention"] * 4},
            "x",
            "F_F_F_F_",
            id="listed",
        ),
        pytest.param(
            {
                "layer_types": ["sliding_attention", "full_attention"] * 4,
                "sliding_window": 9,
            },
            "x",
            "SFSFSFSF",
            id="both",
        ),
        pytest.param(
            {"layer_types": ["sliding_attention"] * 8},
            "x",
            "FFFFFFFF",
            id="a window of no length",
        ),
        pytest.param(
            {"layers_block_type": ["mamba", "attention"] * 4},
            "x",
            "_F_F_F_F",
            id="listed otherwise",
        ),
        pytest.param(
            {"layer_types": ["full_attention"] * 12},
            "x",
            "FFFFFFFF",
            id="more listed than there are",
        ),
        pytest.param(
            {"hybrid_override_pattern": "M*-EM*-E"},
            "nemotron_h",
            "_F_F",
            id="layers that keep nothing",
        ),
        pytest.param(
            {"layer_types": ["full_attention"] * 8, "full_attention_interval": 4},
            "x",
            "FFFFFFFF",
            id="a list goes first",
        ),
    ],
)
def test_pattern(config: Config, model_type: str, layers: str) -> None:
    assert pattern(config, model_type=model_type) == layers


@pytest.mark.parametrize(
    ("letter", "names"),
    [
        (
            "F",
            ["full_attention", "attention", "full", "global", "chunked_attention"],
        ),
        ("S", ["sliding_attention", "sliding_window", "sliding", "local", "swa"]),
        (
            "_",
            [
                "linear_attention",
                "mamba",
                "mamba2",
                "conv",
                "recurrent",
                "kda",
                "gdn",
                "ssm",
            ],
        ),
        ("", ["mlp", "moe"]),
    ],
)
def test_every_name_of_a_type(letter: str, names: list[str]) -> None:
    found = [
        pattern({"layer_types": [name], "sliding_window": 9}, count=1)
        for name in names
    ]
    assert found == [letter] * len(names)


@pytest.mark.parametrize(
    ("model_type", "window"), [("mistral", 9), ("gemma2", 9), ("cohere2", 10)]
)
def test_a_window_is_as_long_as_it_says_but_for_cohere(
    model_type: str, window: int
) -> None:
    (first, *_) = attention_of_layers(
        {"sliding_window": 9}, model_type=model_type, count=4
    )
    assert (first.kind, first.window_tokens) == ("Sliding", window)


@pytest.mark.parametrize("value", [1, 2, 10**12])
def test_a_whole_number_is_above_0(value: int) -> None:
    assert (
        whole({"n": value}, "n")
        == whole_if_any({"n": value}, "n")
        == number_if_any({"n": value}, "n")
        == value
    )


def test_the_largest_is_beyond_any_model() -> None:
    assert MOST == 10**12


@pytest.mark.parametrize("value", [-1, 10**12 + 1, True, "1", 1.5, [1], {"a": 1}])
def test_what_is_no_whole_number_is_named_with_its_value(value: object) -> None:
    for read in (whole, whole_if_any):
        with pytest.raises(UnknownShape) as problem:
            read({"n": value}, "n")
        assert str(problem.value).startswith(f"n is {value!r}, expected a")


@pytest.mark.parametrize("config", [{}, {"n": None}])
def test_what_is_not_there_is_missing_or_none(config: dict[str, Any]) -> None:
    with pytest.raises(UnknownShape, match=r"^config\.json has no n, "):
        whole(config, "n")
    assert whole_if_any(config, "n") is None
    assert number_if_any(config, "n") is None
    assert value_if_any(config, "n", list) is None
    assert value_if_any(config, "n", dict) is None


@pytest.mark.parametrize("value", [0, False])
def test_nothing_may_stand_for_none_but_is_no_number(value: object) -> None:
    assert whole_if_any({"n": value}, "n") is None
    for read in (whole, number_if_any):
        with pytest.raises(UnknownShape) as problem:
            read({"n": value}, "n")
        assert str(problem.value).startswith(f"n is {value!r}, expected a")


@pytest.mark.parametrize("value", [0.5, 1.0, 1e12])
def test_a_number_may_have_decimals(value: float) -> None:
    assert number_if_any({"n": value}, "n") == value


@pytest.mark.parametrize(
    "value", [True, -0.5, 1e13, float("inf"), float("nan"), "0.5", []]
)
def test_a_value_that_is_not_a_number_is_named(value: object) -> None:
    with pytest.raises(UnknownShape) as problem:
        number_if_any({"n": value}, "n")
    assert str(problem.value).startswith(f"n is {value!r}, expected a")


@pytest.mark.parametrize(
    ("kind", "good", "bad"), [(list, [1], {"a": 1}), (dict, {"a": 1}, [1])]
)
def test_lists_and_objects_are_distinguished(
    kind: type[list[Any]], good: object, bad: object
) -> None:
    assert value_if_any({"n": good}, "n", kind) == good
    for wrong in (bad, "word", 5):
        with pytest.raises(UnknownShape) as problem:
            value_if_any({"n": wrong}, "n", kind)
        assert str(problem.value).startswith(f"n is {wrong!r}, expected a")


@pytest.mark.parametrize(
    ("config", "model_type"),
    [
        ({"linear_attn_config": {}}, "kimi_linear"),
        ({}, "lfm2"),
        ({}, "qwen3_next"),
        ({"sliding_window": 9}, "llama"),
        ({"sliding_window": 9, "sliding_window_pattern": "LX"}, "exaone4"),
    ],
)
def test_layers_that_differ_in_ways_not_said_are_an_error(
    config: Config, model_type: str
) -> None:
    with pytest.raises(UnknownShape):
        pattern(config, model_type=model_type)
