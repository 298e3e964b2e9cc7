"""Read JSON and YAML that anybody may have written; errors name file, key and remedy."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

YAML_ENDINGS = (".yaml", ".yml")
MAX_YAML_BYTES = 2 * 1024 * 1024
"""Largest YAML file: reading one takes longer and more memory than JSON."""
MAX_YAML_DEPTH = 50
MAX_BYTES = 64 * 1024 * 1024  # Largest file.
MAX_COMMAS = 8_000_000
"""Most commas in a file: each ends a value of up to 32 bytes in memory."""
MAX_NESTED = (
    1_000_000  # Most lists and objects in a file, which take up to 250 bytes each.
)
MAX_LINES = 250_000  # Most lines of JSON Lines, five times the requests of a stage.
MAX_SHOWN = 60  # Most characters that an error shows of a value.
MAX_TEXT = 300


class Unreadable(ValueError):
    """A file that is not what it was said to be; the message names file, key and remedy."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value within a file, with the keys that lead to it."""

    file: str
    remedy: str  # What to do where a value is missing or not as expected.
    value: object
    path: str = ""

    def wrong(self, why: str) -> Unreadable:
        """Return the error that this value is not as expected."""
        return Unreadable(
            f"{self.file}: {self.path or 'document'} {why}; {self.remedy}"
        )

    def find(self, *keys: str) -> "Part | None":
        """Return the value below these keys; None if one is missing or its value is null."""
        found = self
        for key in keys:
            if not isinstance(found.value, Mapping):
                raise found.wrong(f"must be an object, not {_shown(found.value)}")
            path = f"{found.path}.{key}" if found.path else key
            found = Part(self.file, self.remedy, found.value.get(key), path)
            if found.value is None:
                return None
        return found

    def at(self, *keys: str) -> "Part":
        """Return the value below these keys. Raises Unreadable if there is none."""
        found = self.find(*keys)
        if found is None:
            path = ".".join((*filter(None, [self.path]), *keys))
            raise Part(self.file, self.remedy, None, path).wrong("is missing")
        return found

    def number(self, *, least: float = 0.0, most: float = 1e12) -> float:
        """Return a finite number within these bounds."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(f"must be a number, not {_shown(value)}")
        if not least <= value <= most:
            raise self.wrong(
                f"must be from {least:g} to {most:g}, not {_shown(value)}"
            )
        return float(value)

    def count(self, *, most: int = 10**12) -> int:
        """Return a whole number from 0."""
        value = self.number(most=most)
        if value != int(value):
            raise self.wrong(f"must be a whole number, not {_shown(self.value)}")
        return int(value)

    def text(self) -> str:
        """Return a text, cut to `MAX_TEXT` characters that can be printed."""
        if not isinstance(self.value, str):
            raise self.wrong(f"must be a text, not {_shown(self.value)}")
        cut = self.value[:MAX_TEXT]
        return "".join(each if each.isprintable() else " " for each in cut)

    def items(self, *, most: int) -> "Iterator[Part]":
        """Yield the values of a list. Raises Unreadable if it is none, or has more than `most`."""
        if not isinstance(self.value, list):
            raise self.wrong(f"must be a list, not {_shown(self.value)}")
        if len(self.value) > most:
            raise self.wrong(f"has {len(self.value)} entries, more than {most}")
        for place, value in enumerate(self.value):
            yield Part(self.file, self.remedy, value, f"{self.path}[{place}]")

    def finite(self, *keys: str) -> float | None:
        """Return the number below these keys; None if it is missing or not a finite number."""
        found = self.find(*keys)
        value = None if found is None else found.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) <= 1e15 and math.isfinite(value) else None


def documents(file: str, data: bytes, *, remedy: str) -> list[Part]:
    """Return the document of a file, or one for each line (JSON Lines). Raises Unreadable.

    A file whose name ends as YAML does is read as such.
    """
    whole = Part(file, remedy, None)
    if len(data) > MAX_BYTES:
        raise whole.wrong(f"has {len(data)} bytes, more than {MAX_BYTES}")
    if (
        data.count(b",") > MAX_COMMAS
        or data.count(b"[") + data.count(b"{") > MAX_NESTED
    ):
        raise whole.wrong("has more values than a result may have")
    if file.endswith(YAML_ENDINGS):
        return [Part(file, remedy, _yaml(whole, data))]
    try:
        return [Part(file, remedy, json.loads(data))]
    except RecursionError:
        raise whole.wrong("is nested too deep") from None
    except ValueError:
        return _lines(whole, data)


# CSafeLoader is ten times as fast. It exists where PyYAML was built with libyaml.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _yaml(whole: Part, data: bytes) -> object:
    """Return a YAML document. One with aliases is refused: few bytes of them make many values."""
    if len(data) > MAX_YAML_BYTES:
        raise whole.wrong(f"has {len(data)} bytes, more than {MAX_YAML_BYTES}")
    try:
        depth = 0
        for event in yaml.parse(data, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise whole.wrong("has aliases, which no tool writes")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_YAML_DEPTH:
                raise whole.wrong("is nested too deep")
        return yaml.load(data, Loader=_LOADER)
    except RecursionError:
        raise whole.wrong("is nested too deep") from None
    except (ValueError, yaml.YAMLError):
        raise whole.wrong("is not YAML") from None


def _lines(whole: Part, data: bytes) -> list[Part]:
    ends = data.count(b"\n") + data.count(b"\r")
    if ends > MAX_LINES:
        raise whole.wrong(
            f"is not one JSON document, and has {ends} lines, more than {MAX_LINES}"
        )
    found = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(Part(whole.file, whole.remedy, json.loads(line)))
        except (ValueError, RecursionError):
            raise Part(whole.file, whole.remedy, None, f"line {number}").wrong(
                "is not JSON"
            ) from None
    if not found:
        raise whole.wrong("is empty")
    return found


def _shown(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    text = repr(value[: MAX_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
