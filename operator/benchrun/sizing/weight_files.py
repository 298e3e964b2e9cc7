"""How large the weights of a model are, from its safetensors files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


class NotWeights(ValueError):
    """It does not have the form of a safetensors index or header."""


def bytes_by_index(index: Mapping[str, Any]) -> int:
    """From `model.safetensors.index.json`. Raises NotWeights."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(total, bool) or not isinstance(total, int | float) or not 0 < total < math.inf:
        raise NotWeights("the index of the weights does not say metadata.total_size")
    return int(total)


def bytes_by_header(header: Mapping[str, Any]) -> int:
    """From the header of one safetensors file: where its tensors end. Raises NotWeights."""
    ends: list[int] = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        offsets = tensor.get("data_offsets") if isinstance(tensor, Mapping) else None
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(isinstance(each, int) for each in offsets):
            raise NotWeights(f"the header of the weights does not say where tensor {name} begins and ends")
        ends.append(offsets[1])
    if not ends:
        raise NotWeights("the header of the weights names no tensors")
    return max(ends)
