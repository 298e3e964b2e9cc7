"""The size of weights, from what safetensors files say of themselves."""

from typing import Any

import pytest
from benchrun.cli.model_folder import bytes_by_header, bytes_by_index
from unit.golden_messages import golden


def test_an_index_states_the_total_size() -> None:
    assert bytes_by_index({"metadata": {"total_size": 65_527_752_704}, "weight_map": {}}) == 65_527_752_704


def test_a_header_says_where_its_tensors_end() -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [8, 16]},
        "a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
    }
    assert bytes_by_header(header) == 16


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"metadata": {}},
        {"metadata": []},
        {"metadata": {"total_size": "much"}},
        {"metadata": {"total_size": True}},
        {"metadata": {"total_size": 0}},
        {"metadata": {"total_size": -1}},
        {"metadata": {"total_size": float("inf")}},
    ],
)
def test_an_index_without_it_is_rejected(index: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as raised:
        bytes_by_index(index)
    golden(str(raised.value))


def test_a_header_without_tensors_is_rejected() -> None:
    with pytest.raises(ValueError, match="names no tensors"):
        bytes_by_header({"__metadata__": {}})


@pytest.mark.parametrize(
    "tensor",
    [1, None, [], {}, {"data_offsets": 8}, {"data_offsets": [8]}, {"data_offsets": ["0", "8"]}, {"dtype": "BF16"}],
    ids=str,
)
def test_a_tensor_that_is_nowhere_is_named(tensor: Any) -> None:
    with pytest.raises(ValueError) as raised:
        bytes_by_header({"a": {"data_offsets": [0, 8]}, "lm_head": tensor})
    golden(str(raised.value))


def test_sizes_written_as_floats_are_read_as_whole_bytes() -> None:
    assert bytes_by_index({"metadata": {"total_size": 1024.0}}) == 1024
    assert bytes_by_index({"metadata": {"total_size": 1}}) == 1
