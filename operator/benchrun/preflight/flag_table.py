"""The flags of `vllm serve`, as the version itself tells them: one file a version, made by dev/vllm_flags.py."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Takes = Literal["nothing", "one", "maybe", "many"]
"""nothing: a switch. one: a value. maybe: a value that may be left out. many: any number of values."""

_TAG = re.compile(r"^v?(\d+)\.(\d+)\.\d+(?:[-.+_].*)?$")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag."""

    takes: Takes
    choices: tuple[str, ...] = ()
    """Values that are allowed; empty: any."""
    is_object: bool = False
    """Whether the value is JSON, which may also be given by parts: --name.key value."""


@dataclass(frozen=True, slots=True)
class FlagTable:
    """All flags of one version, by every name they have."""

    version: str
    flags: Mapping[str, Flag]


def known_versions() -> tuple[str, ...]:
    """Versions with a table, as "0.32": patch releases add no flags that matter."""
    return tuple(sorted(_tables()))


def table_for(version: str) -> FlagTable | None:
    """The table of a version such as "0.32" or "0.32.1"; None: its flags are not known here."""
    name = _tables().get(".".join(version.split(".")[:2]))
    return None if name is None else _read(name)


def version_of_image(image: str) -> str | None:
    """The version that an image's tag names, as "0.32"; None where it names none, as `latest` or a digest."""
    _, colon, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    found = _TAG.match(tag) if colon else None
    return None if found is None else f"{found[1]}.{found[2]}"


@cache
def _tables() -> Mapping[str, str]:
    names = [each.name for each in files(__package__).joinpath("vllm_flags").iterdir() if each.name.endswith(".json")]
    return {".".join(name.split(".")[:2]): name for name in names}


@cache
def _read(name: str) -> FlagTable:
    text = files(__package__).joinpath("vllm_flags", name).read_text(encoding="utf-8")
    found = json.loads(text)
    flags = {
        spelling: Flag(each["takes"], tuple(each.get("choices", ())), each.get("object", False))
        for each in found["flags"]
        for spelling in each["names"]
    }
    return FlagTable(found["version"], flags)
