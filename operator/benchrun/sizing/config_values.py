"""Single values of config.json: what is not of the type that its key has is an error that names the key, never a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchrun.sizing.layers import UnknownShape

Config = Mapping[str, Any]
MOST = 10**12
"""Beyond any number of a model: larger ones are a mistake, and would take long to work with."""


def whole(config: Config, name: str) -> int:
    """A whole number above 0. Raises UnknownShape where there is none."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST:
        raise UnknownShape(f"config.json does not say {name}" if value is None else f"{name} is {value!r}")
    return value


def whole_if_any(config: Config, name: str) -> int | None:
    """The same; None where the key is not there, or says null, false or 0, which all stand for none."""
    return whole(config, name) if config.get(name) else None


def number_if_any(config: Config, name: str) -> float | None:
    """A number above 0; None where the key is not there. Raises UnknownShape where it is something else."""
    value = config.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise UnknownShape(f"{name} is {value!r}")
    return value


def list_if_any(config: Config, name: str) -> Sequence[Any] | None:
    """A list; None where the key is not there. Raises UnknownShape where it is something else."""
    value = config.get(name)
    if value is not None and not isinstance(value, list):
        raise UnknownShape(f"{name} is {value!r}")
    return value


def part_if_any(config: Config, name: str) -> Config:
    """An object; empty where the key is not there. Raises UnknownShape where it is something else."""
    value = config.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise UnknownShape(f"{name} is {value!r}")
    return value or {}
