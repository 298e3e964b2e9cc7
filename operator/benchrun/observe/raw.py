"""Reading values out of objects that anybody may have written: which object it is, whose it is, what it holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from benchrun import names
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.names import KIND

# ---- raw --------------------------------------------------------------------------------------------------------------
# Reading values out of objects that anybody may have written: never raises, never keeps more than asked for.

MAX_NAME_CHARS = 253
MAX_MESSAGE_CHARS = 2048
"""A termination message is at most 4,096 bytes; the end of a log kept in its place at most 2,048."""

MAX_NUMBER = 10**15
"""As many digits as are read of a string, too."""

MAX_SHARED_CHARS = 64
MAX_SHARED_DEPTH = 32

Object = Mapping[str, object]


def mapping(value: object) -> Object:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def shared(value: Any, depth: int = MAX_SHARED_DEPTH) -> Any:
    """The same JSON with its keys and short texts in memory once, however many objects hold them; what is nested deeper stays as
    it is. Of runs that are alike it saves half of what specs and statuses take."""
    if depth == 0:
        return value
    if isinstance(value, dict):
        return {sys.intern(key): shared(each, depth - 1) for key, each in value.items() if type(key) is str}
    if isinstance(value, list):
        return [shared(each, depth - 1) for each in value]
    return sys.intern(value) if type(value) is str and len(value) <= MAX_SHARED_CHARS else value


def mappings(value: object) -> Iterator[Object]:
    """The mappings in a list; nothing of anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from (item for item in value if isinstance(item, Mapping))


def text(value: object, limit: int = MAX_NAME_CHARS) -> str:
    """The value if it is a string, cut to the limit; else nothing."""
    return value[:limit] if isinstance(value, str) else ""


def end_of(value: object, limit: int = MAX_MESSAGE_CHARS) -> str:
    """The last characters of a string: that is where programs say why they ended."""
    return value[-limit:] if isinstance(value, str) else ""


def number(value: object, default: int = 0) -> int:
    """A whole number, also one written as a string, as quantities are."""
    if isinstance(value, bool):
        return default
    if isinstance(value, int):
        return value if abs(value) <= MAX_NUMBER else default
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15:
        return int(value)
    return default


def instant(value: object) -> datetime | None:
    """An RFC 3339 instant, in UTC."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def condition(status: Object, type_: str) -> Object:
    """The condition of that type; empty if there is none."""
    return next((c for c in mappings(status.get("conditions")) if c.get("type") == type_), {})


def controller(metadata: Object) -> Object:
    """The owner reference of whoever controls the object; empty if nobody does."""
    return next((r for r in mappings(metadata.get("ownerReferences")) if r.get("controller") is True), {})


# ---- identity ---------------------------------------------------------------------------------------------------------
# Which object a body is, and which run or sweep it belongs to.

_MAX_VERSION_CHARS = 40


class RunKey(NamedTuple):
    """Which run."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class SweepKey:
    """Which sweep. Never equal to a run's key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"sweep {self.namespace}/{self.name}"


Key = RunKey | SweepKey


class ObjectKey(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str


def object_of(key: Key) -> ObjectKey:
    """The object that a key stands for."""
    return ObjectKey(KIND if isinstance(key, RunKey) else SWEEP_KIND, key.namespace, key.name)


class Identity(NamedTuple):
    """An object, its uid and its version."""

    key: ObjectKey
    uid: str
    version: int


def identity_of(kind: str, body: Object) -> Identity | None:
    """None where the body does not say which object it is, or which version."""
    meta = mapping(body.get("metadata"))
    namespace, name, uid = (text(meta.get(key)) for key in ("namespace", "name", "uid"))
    # resourceVersions of one kind are comparable as numbers, which Kubernetes promises since 1.35.
    version = text(meta.get("resourceVersion"), _MAX_VERSION_CHARS)
    if not (namespace and name and uid and version.isascii() and version.isdigit()):
        return None
    return Identity(ObjectKey(kind, namespace, name), uid, int(version))


def belongs_to(key: ObjectKey, body: Object) -> Key | None:
    """The run or sweep that is to be looked at when the object changes; None: none."""
    if key.kind == KIND:
        return RunKey(key.namespace, key.name)
    if key.kind == SWEEP_KIND:
        return SweepKey(key.namespace, key.name)
    name = text(mapping(mapping(body.get("metadata")).get("labels")).get(names.LABEL_RUN))
    return RunKey(key.namespace, name) if name else None


def sweep_of_run(body: Object) -> SweepKey | None:
    """The sweep that controls this run, if one does."""
    meta = mapping(body.get("metadata"))
    owner = controller(meta)
    namespace, name = text(meta.get("namespace")), text(owner.get("name"))
    return SweepKey(namespace, name) if owner.get("kind") == SWEEP_KIND and namespace and name else None
