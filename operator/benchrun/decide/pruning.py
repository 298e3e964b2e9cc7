"""What a finished run keeps of what was measured: less than 1 MiB in all its ConfigMaps.

The figures are in the status by then. Records are kept in the order of the plan, up to the first that does not fit; chunks
of the timeline likewise, in half of the room at most. A record takes its part of the timeline with it. What goes, goes
from the end, so that an operator which dies in between leaves what the next one would keep too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from benchrun.api import names
from benchrun.api.status import Truncated
from benchrun.decide.decision import Manifest, Ref
from benchrun.decide.situation import Situation

PLAN_BYTES = 128 * 1024
"""Room for the plan: its largest, of 256 stages."""
RESULT_BYTES = 1024 * 1024 - PLAN_BYTES
TIMELINE_BYTES = RESULT_BYTES // 2


@dataclass(frozen=True, slots=True)
class Stored:
    """A ConfigMap of a stage or of the timeline."""

    name: str
    role: str
    size_bytes: int


def kept(stored: Iterable[Stored]) -> tuple[Stored, ...]:
    """Those that stay, timeline first."""
    ordered = sorted(stored, key=lambda s: (len(s.name), s.name))
    timeline = _prefix([s for s in ordered if s.role == names.ROLE_TIMELINE], TIMELINE_BYTES)
    room = RESULT_BYTES - sum(s.size_bytes for s in timeline)
    return (*timeline, *_prefix([s for s in ordered if s.role == names.ROLE_STAGE], room))


def to_prune(situation: Situation) -> tuple[Ref, ...]:
    """What a finished run does not keep, the last of each kind first."""
    children = {c.name: c for c in situation.children.objects if c.role in _ROLES and not c.deleting}
    stay = {s.name for s in kept(Stored(c.name, c.role, c.stored_bytes) for c in children.values())}
    go = sorted((c for c in children.values() if c.name not in stay), key=lambda c: (len(c.name), c.name), reverse=True)
    return tuple(Ref(c.kind, situation.owner.namespace, c.name, c.uid) for c in go)


def pruned(situation: Situation, stored_now: Iterable[Manifest]) -> list[Truncated]:
    """What will be missing of the records that there are, once this run has ended."""
    stored = {c.name: Stored(c.name, c.role, c.stored_bytes) for c in situation.children.objects if c.role in _ROLES}
    stored |= {s.name: s for s in map(_of_manifest, stored_now)}
    stay = kept(stored.values())
    records = sum(s.role == names.ROLE_STAGE for s in stay)
    chunks, all_chunks = (sum(s.role == names.ROLE_TIMELINE for s in some) for some in (stay, stored.values()))
    notes = [("records", len(situation.known), records), ("timeline", all_chunks, chunks)]
    return [Truncated(field=field, total=total, included=here) for field, total, here in notes if here < total]


_ROLES = (names.ROLE_STAGE, names.ROLE_TIMELINE)


def _prefix(ordered: Sequence[Stored], room: int) -> list[Stored]:
    """The first of them, as many as fit."""
    sums = accumulate(s.size_bytes for s in ordered)
    return [s for s, upto in zip(ordered, sums, strict=True) if upto <= room]


def _of_manifest(manifest: Manifest) -> Stored:
    meta = manifest["metadata"]
    size = int(meta["annotations"][names.ANNOTATION_BYTES])
    return Stored(meta["name"], meta["labels"][names.LABEL_ROLE], size)
