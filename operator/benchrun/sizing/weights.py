"""How large a model's weights are, from what safetensors files say about themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NotWeights(ValueError):
    """It does not have the form of a safetensors index or header."""


def bytes_by_index(index: Mapping[str, Any]) -> int:
    """From `model.safetensors.index.json`. Raises NotWeights."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if not isinstance(total, int | float) or total <= 0:
        raise NotWeights("the index of the weights does not say metadata.total_size")
    return int(total)


def bytes_by_header(header: Mapping[str, Any]) -> int:
    """From the header of one safetensors file: where its tensors end. Raises NotWeights."""
    ends = [
        each["data_offsets"][1] for name, each in header.items() if name != "__metadata__" and "data_offsets" in each
    ]
    if not ends:
        raise NotWeights("the header of the weights names no tensors")
    return int(max(ends))
