"""JSON with one thing wrong with it, or several: what is drawn hangs on the given generator alone."""

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Path = tuple[int | str, ...]
Change = Callable[[Any], Any]
"""Another value in the place of the one that was there."""
UNKNOWN = "unknownField"
REMOVED = "removed"
DEEP_LEVELS = 300
LONG_CHARS = 70_000
MANY_ENTRIES = 5_000
MOST_JSON_BYTES = 32 * 1024
"""What is larger is changed as text."""


class Impossible(Exception):
    """The change is none for this value."""


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in the value, its root first."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths_of(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from paths_of(inner, (*path, place))


def at(value: Any, path: Path) -> Any:
    """What is at the place."""
    for step in path:
        value = value[step]
    return value


def replaced(value: Any, path: Path, new: Any) -> Any:
    """The value with something else at the place; what is on the way to it is copied."""
    if not path:
        return new
    found = value.copy()
    found[path[0]] = replaced(value[path[0]], path[1:], new)
    return found


def removed(value: Any, path: Path) -> Any:
    """Likewise, without the place."""
    if not path:
        raise Impossible
    parent = at(value, path[:-1]).copy()
    del parent[path[-1]]
    return replaced(value, path[:-1], parent)


def _deep() -> Any:
    found: Any = "end"
    for _ in range(DEEP_LEVELS):
        found = [found]
    return found


def _only(kind: type | tuple[type, ...], change: Change) -> Change:
    def changed(old: Any) -> Any:
        if not isinstance(old, kind) or isinstance(old, bool):
            raise Impossible
        return change(old)

    return changed


def _constant(new: Any) -> Change:
    return lambda _: new


def _without_unit(old: str) -> str:
    kept = old.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if kept in ("", old):
        raise Impossible
    return kept


def _twice(old: list[Any]) -> list[Any]:
    if not old:
        raise Impossible
    return [*old, old[0]]


def _many(old: list[Any]) -> list[Any]:
    return (old or [0])[:1] * MANY_ENTRIES


_NUMBERS = (
    0,
    -1,
    1,
    2,
    2**31 - 1,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    10**30,
    0.5,
    1e308,
)
_TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "00",
    "1.0",
    "1e9",
    "1e999",
    "inf",
    "NaN",
    "0.000001",
    "999999999999",
    "100",
    "true",
    "null",
    "/",
    "../../etc",
    "--help",
    "$(HOME)",
    "{{ x }}",
    "a\nb",
    "\x00",
    "\x1b[31m",
    "²",
    "Ä\u202e",
    "\U0001f600",
    "auto",
    "http://a b/",
    "https://[::1",
)
CHANGES: dict[str, Change] = {
    **{f"number {each}": _constant(each) for each in _NUMBERS},
    **{f"text {each!r}": _only(str, _constant(each)) for each in _TEXTS},
    "null": _constant(None),
    "true": _constant(True),
    "empty text": _constant(""),
    "empty list": _constant([]),
    "empty object": _constant({}),
    "long text": _constant("x" * LONG_CHARS),
    "deep": _constant(_deep()),
    "one less": _only((int, float), lambda old: old - 1),
    "one more": _only((int, float), lambda old: old + 1),
    "negative": _only((int, float), lambda old: -old),
    "thousandfold": _only((int, float), lambda old: old * 1000),
    "as text": _only((int, float), str),
    "with a unit": _only((int, float), "{}s".format),
    "a fraction": _only(int, lambda old: old + 0.5 if abs(old) < 2**53 else 0.5),
    "another unit": _only(str, "{}Gi".format),
    "seconds": _only(str, "{}s".format),
    "no unit": _only(str, _without_unit),
    "doubled": _only(str, lambda old: old * 2),
    "upper case": _only(str, str.upper),
    "blank behind": _only(str, "{} ".format),
    "cut": _only(str, lambda old: old[:-1]),
    "in a list": lambda old: [old],
    "in an object": lambda old: {"value": old},
    "twice": _only(list, _twice),
    "many": _only(list, _many),
    "null in it": _only(list, lambda old: [*old, None]),
    "backwards": _only(list, lambda old: old[::-1]),
    "unknown field": _only(dict, lambda old: {**old, UNKNOWN: 1}),
    "empty name": _only(dict, lambda old: {**old, "": 1}),
    "many fields": _only(
        dict, lambda old: {**old, **{f"f{n}": n for n in range(MANY_ENTRIES)}}
    ),
}


class Leaf(NamedTuple):
    """One change of a value."""

    path: Path
    name: str

    def of(self, value: Any) -> Any:
        """A copy of the value with the change made."""
        if self.name == REMOVED:
            return removed(value, self.path)
        return replaced(value, self.path, CHANGES[self.name](at(value, self.path)))


def leaf_by_leaf(value: Any) -> Iterator[Leaf]:
    """Every change of one place of the value."""
    for path in paths_of(value):
        if path:
            yield Leaf(path, REMOVED)
        old = at(value, path)
        for name, change in CHANGES.items():
            try:
                new = change(old)
            except Impossible:
                continue
            if type(new) is not type(old) or new != old:
                yield Leaf(path, name)


_LARGE = ("many", "many fields", "deep", "long text")
_ANY_CHANGE = [
    *(
        change
        for name, change in CHANGES.items()
        for _ in range(1 if name in _LARGE else 10)
    ),
    _constant("half a character: \ud800"),
    _constant(float("nan")),
    _constant(float("inf")),
    _constant(10**400),
]
"""In JSON that no API server has checked."""


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with something changed at one place of it, drawn."""
    path = rng.choice(list(paths_of(value)))
    if path and rng.random() < 0.1:
        return removed(value, path)
    if path and rng.random() < 0.1:
        return replaced(value, path, at(value, rng.choice(list(paths_of(value)))))
    for _ in range(20):
        try:
            return replaced(value, path, rng.choice(_ANY_CHANGE)(at(value, path)))
        except Impossible:
            continue
    return value


# ---- bytes


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with something changed. JSON stays JSON, most of the time: of several lines of it one is
    changed."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = (
            _json_changed(data, rng)
            if rng.random() < 0.8
            else _text_changed(data, rng)
        )
    return data


def _json_changed(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = 0 if rng.random() < 0.5 else rng.randrange(len(lines))
    if lines[place][:1] not in (b"{", b"[") or len(data) > MOST_JSON_BYTES:
        return _text_changed(data, rng)
    try:
        value = mutated(json.loads(lines[place]), rng)
        lines[place] = json.dumps(value, separators=(",", ":")).encode()
    except (ValueError, OverflowError, RecursionError):
        return _text_changed(data, rng)
    if rng.random() < 0.1:
        lines[place] = _RAW_NUMBER.sub(
            rng.choice(_RAW_NUMBERS), lines[place], count=1
        )
    return b"\n".join(lines)


_RAW_NUMBER = re.compile(rb"(?<=[:\[,])[0-9]+")
_RAW_NUMBERS = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b"-0",
    b"1E400",
    b"9" * 400,
)
_BITS = (
    b"\x00",
    b"\xff",
    b"\r",
    b"\n",
    b"\n\n",
    b'"',
    b"\\",
    b"{",
    b"[",
    b"}",
    b",",
    b"NaN",
    b"+Inf",
    b"1e999",
    b"-1",
    b"9" * 400,
    b"\\ud800",
    "\u2028\u202e".encode(),
    b"\x1b[31m",
    b"\xf0\x9f\x98\x80",
    b"x" * 10_000,
    b"[" * 2_000,
    b" " * 2_000,
)


def _text_changed(data: bytes, rng: random.Random) -> bytes:
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice([0, 1, 2, 8, 64, 1024]))
    kept = rng.choice(
        [b"", data[begin:end] * 2, data[begin:end] * 50, rng.choice(_BITS)]
    )
    if rng.random() < 0.3:
        end = begin
    if rng.random() < 0.3:
        numbers = list(_RAW_NUMBER.finditer(data))
        if numbers:
            begin, end = rng.choice(numbers).span()
            kept = rng.choice(_RAW_NUMBERS)
    return data[:begin] + kept + data[end:]
