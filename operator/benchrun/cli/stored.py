"""What a run left of its measurement, unpacked from its ConfigMaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.api import names
from benchrun.measure.samples import Sample
from benchrun.measure.timeline import decode, once
from benchrun.observe import raw
from benchrun.observe.trim import child_of
from benchrun.observe.views import Child
from benchrun.plan.stored import RECORD_KEY, TIMELINE_KEY, stored_part, stored_record


@dataclass(frozen=True, slots=True)
class StoredMeasurement:
    """Records and timeline."""

    records: tuple[StageRecord, ...]
    """In order of measurement."""
    samples: tuple[Sample, ...]
    """Oldest first."""
    unreadable: tuple[str, ...]
    """ConfigMaps of the run that do not hold what they should, each with the reason."""


def unpacked(bodies: Iterable[raw.Object], *, run_uid: str) -> StoredMeasurement:
    """Of ConfigMaps that this run owns; others may be among them and are passed over: a label alone proves nothing."""
    records: dict[int, StageRecord] = {}
    samples: list[Sample] = []
    unreadable: list[str] = []
    for body in bodies:
        child = child_of("ConfigMap", body)
        if child.owner_uid != run_uid or child.role not in (names.ROLE_STAGE, names.ROLE_TIMELINE):
            continue
        try:
            record, readings = _opened(body, child, run_uid)
        except ValueError as error:
            unreadable.append(f"ConfigMap {child.name}: {str(error).splitlines()[0]}")
            continue
        samples += readings
        if record is not None:
            records[record.sequence] = record
    in_order = tuple(records[sequence] for sequence in sorted(records))
    return StoredMeasurement(in_order, tuple(once(samples)), tuple(unreadable))


def _opened(body: raw.Object, child: Child, run_uid: str) -> tuple[StageRecord | None, tuple[Sample, ...]]:
    """Raises ValueError."""
    timeline = stored_part(body, TIMELINE_KEY)
    samples = decode(timeline).samples if timeline is not None else ()
    if child.role == names.ROLE_TIMELINE:
        return None, samples
    packed = stored_part(body, RECORD_KEY)
    if packed is None:
        raise ValueError("holds no record")
    return stored_record(packed, run_uid=run_uid, sequence=child.sequence), samples
