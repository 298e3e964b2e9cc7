"""Read a model's config.json and the size of its weights.

They come from a folder, a file, or the local cache of the Hugging Face hub.
"""

import json
import math
import os
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchrun.cli.errors import CommandError
from benchrun.sizing import ModelShape, UnknownShape, model_shape

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MAX_CONFIG_BYTES = 4 * 2**20
MAX_INDEX_BYTES = 64 * 2**20
"""Most bytes of an index or a header; both list every tensor of the model."""


def config_path(model: str) -> Path:
    """Return the path of config.json for a file, a folder or a hub id.

    Raises CommandError if there is none.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        path = path / CONFIG
    if path.is_file():
        return path
    if (cached := _in_hub_cache(model)) is not None:
        return cached
    raise CommandError(
        f"{model}: no such file or folder, and the hub's local cache has no such model; "
        f"fetch it with: hf download {model} {CONFIG} {INDEX}"
    )


def shape_at(path: Path) -> ModelShape:
    """Return the shape of the model that a config.json describes. Raises CommandError."""
    try:
        return model_shape(_json_object(path, MAX_CONFIG_BYTES))
    except UnknownShape as error:
        raise CommandError(f"{path}: {error}") from error


def weights_beside(path: Path) -> int | None:
    """Return the bytes of the weights next to a config.json; None if there are no weights.

    Raises CommandError.
    """
    index = path.with_name(INDEX)
    files = sorted(path.parent.glob("*.safetensors"))
    try:
        if index.is_file():
            return bytes_by_index(_json_object(index, MAX_INDEX_BYTES))
        check_files([file.name for file in files])
        return sum(bytes_by_header(_header(file)) for file in files) or None
    except ValueError as error:
        raise CommandError(f"{path.parent}: {error}") from error


_SHARD = re.compile(r"(.*)-\d{5}-of-(\d{5})\.safetensors")
# Mistral's name of the same weights in its own format.
_OTHER_FORMAT = "consolidated"


def check_files(names: Sequence[str]) -> None:
    """Raise ValueError unless the weight files are a complete set of one model's, in one format.

    This is for weights without an index.
    """
    other = [name for name in names if name.startswith(_OTHER_FORMAT)]
    if other and len(other) < len(names):
        raise ValueError(
            f"the weights are there in two formats (one is {other[0]}), and it is unknown which of "
            "them vLLM loads; give their size with --weights"
        )
    shards = [
        found for name in names if (found := _SHARD.fullmatch(name)) is not None
    ]
    for found in shards:
        there = sum(each[1] == found[1] for each in shards)
        if there != int(found[2]):
            raise ValueError(
                f"only {there} of {int(found[2])} weight files are there, among them {found[0]}; "
                "download the others"
            )


def bytes_by_index(index: Mapping[str, Any]) -> int:
    """Return the bytes of the weights from `model.safetensors.index.json`.

    Raises ValueError if it does not say how many they are; the text names the remedy.
    """
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if (
        isinstance(total, bool)
        or not isinstance(total, int | float)
        or not 0 < total < math.inf
    ):
        raise ValueError(
            "the index of the weights (model.safetensors.index.json) has no "
            "metadata.total_size above 0; give the size of the weights with "
            "--weights"
        )
    return int(total)


def bytes_by_header(header: Mapping[str, Any]) -> int:
    """Return the size in bytes of a safetensors file's tensors, which is where the last one ends.

    Raises ValueError if the header does not tell where a tensor lies; the text names the remedy.
    """
    ends: list[int] = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        offsets = (
            tensor.get("data_offsets") if isinstance(tensor, Mapping) else None
        )
        if (
            not isinstance(offsets, list)
            or len(offsets) != 2
            or not all(isinstance(each, int) for each in offsets)
        ):
            raise ValueError(
                f"the header of the weights has no data_offsets for {name}; give the size of the "
                "weights with --weights"
            )
        ends.append(offsets[1])
    if not ends:
        raise ValueError(
            "the header of the weights lists no tensors; give the size "
            "of the weights with --weights"
        )
    return max(ends)


def _in_hub_cache(model: str) -> Path | None:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    folder = cache / f"models--{model.replace('/', '--')}"
    reference = folder / "refs" / "main"
    if "/" not in model or ".." in model or not reference.is_file():
        return None
    found = folder / "snapshots" / reference.read_text().strip() / CONFIG
    return found if found.is_file() else None


def _json_object(path: Path, max_bytes: int) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(max_bytes + 1)
        found = json.loads(text) if len(text) <= max_bytes else None
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(found, Mapping):
        raise CommandError(
            f"{path}: not a JSON object of at most {max_bytes // 2**20} MiB"
        )
    return found


def _header(path: Path) -> Mapping[str, Any]:
    """Read the header of a safetensors file. Raises CommandError.

    The file begins with the length of the header in 8 bytes, little-endian; then comes the header
    as JSON.
    """
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            found = (
                json.loads(file.read(length)) if length <= MAX_INDEX_BYTES else None
            )
    except (OSError, ValueError, RecursionError, struct.error) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(found, Mapping):
        raise CommandError(f"{path}: not a safetensors file")
    return found
