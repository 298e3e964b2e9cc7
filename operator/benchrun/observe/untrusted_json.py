"""Read values out of objects that anybody may have written.

Nothing raises, and nothing longer than the limit is kept.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address

MAX_NAME_CHARS = 253
MAX_MESSAGE_CHARS = 2048
"""Most characters of a message. A termination message has at most 4,096 bytes; the end of a log in
its place 2,048."""
# largest number that is read; a numeric string has at most 15 digits
MAX_NUMBER = 10**15
Object = Mapping[str, object]
_MAPPINGS = (dict, Mapping)  # asking for a dict first takes a fifth of the time


def parsed(data: bytes) -> object:
    """Return the bytes parsed as JSON; None if they are not valid JSON or nested too deep."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def mapping(value: object) -> Object:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, _MAPPINGS) else {}


def holds_more_than(most: int, value: object) -> bool:
    """Return whether the value has more than `most` values in it, keys not counted.

    The number of values bounds the memory better than the length of the text: an empty list takes
    20 times the memory of its text.
    """
    found = [value]
    for each in found:
        found.extend(
            each.values()
            if isinstance(each, _MAPPINGS)
            else each
            if isinstance(each, list)
            else ()
        )
        if len(found) > most:
            return True
    return False


def mappings(value: object) -> Iterator[Object]:
    """Yield the mappings in a list; nothing for any other value."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from (item for item in value if isinstance(item, _MAPPINGS))


def text(value: object, limit: int = MAX_NAME_CHARS) -> str:
    """Return the value if it is a string, cut to the limit; else an empty string."""
    return _storable(value[:limit]) if isinstance(value, str) else ""


def end_of(value: object, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return the last `limit` characters of a string; an empty string for any other value.

    Programs say at the end of their output why they ended.
    """
    return _storable(value[-limit:]) if isinstance(value, str) else ""


def _storable(value: str) -> str:
    """Replace lone surrogates, which JSON can name and UTF-8 can't encode."""
    return value if value.isascii() else value.encode(errors="replace").decode()


def address(value: object) -> str | None:
    """Return the value if it is an IP address, else None. Only an address may go into a URL."""
    try:
        return str(ip_address(text(value))) if "%" not in text(value) else None
    except ValueError:
        return None


def number(value: object, default: int = 0) -> int:
    """Return a whole number, which may be written as a string; the default for other values."""
    if isinstance(value, bool):
        return default
    if isinstance(value, int):
        return value if abs(value) <= MAX_NUMBER else default
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) <= 15
    ):
        return int(value)
    return default


def instant(value: object) -> datetime | None:
    """Parse an RFC 3339 instant, in UTC; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return (
            parsed.replace(tzinfo=UTC)
            if parsed.tzinfo is None
            else parsed.astimezone(UTC)
        )
    except (ValueError, OverflowError):
        return None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from start to end, at least 0; None if one of them is not known.

    The two may come from different clocks, so that the end can lie before the start.
    """
    return (
        None
        if start is None or end is None
        else max(0.0, (end - start).total_seconds())
    )


def condition(status: Object, type_: str) -> Object:
    """Return the condition of that type; empty if there is none."""
    return next(
        (c for c in mappings(status.get("conditions")) if c.get("type") == type_),
        {},
    )


def controller(metadata: Object) -> Object:
    """Return the owner reference that controls the object; empty if there is none."""
    return next(
        (
            r
            for r in mappings(metadata.get("ownerReferences"))
            if r.get("controller") is True
        ),
        {},
    )
