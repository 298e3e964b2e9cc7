"""Reading back what a run has stored: after a restart its timeline, and when it is judged its records."""

from __future__ import annotations

import logging

from benchrun.api import names
from benchrun.effects.errors import NotFound
from benchrun.effects.kubernetes_api import Cluster
from benchrun.measure.samples import Sample
from benchrun.measure.timeline import decode, once
from benchrun.observe.views import Child, Children, Run
from benchrun.plan.stored import RECORD_KEY, TIMELINE_KEY, stored_part, stored_record
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.packed import Readings

logger = logging.getLogger(__name__)


async def restore_timeline(cluster: Cluster, run: Run, children: Children, memory: RunMemory) -> None:
    """Load the run's timeline, once. Raises ClusterError; then nothing is kept and it is tried again."""
    samples: list[Sample] = []
    for child in _kept(run, children, names.ROLE_STAGE, names.ROLE_TIMELINE):
        packed = await _part(cluster, run, child, TIMELINE_KEY, memory)
        try:
            samples += decode(packed).samples if packed is not None else ()
        except ValueError as error:
            _refuse(run, child, error, memory)
    memory.stored_samples = Readings.of(once(samples))
    memory.restored = True


async def read_back(cluster: Cluster, run: Run, children: Children, memory: RunMemory) -> None:
    """Load the run's stored records. Raises ClusterError; then nothing is kept and it is tried again."""
    records: dict[int, bytes] = {}
    for child in _kept(run, children, names.ROLE_STAGE):
        packed = await _part(cluster, run, child, RECORD_KEY, memory)
        try:
            if packed is not None:
                records[stored_record(packed, run_uid=run.uid, sequence=child.sequence).sequence] = packed
        except ValueError as error:
            _refuse(run, child, error, memory)
    memory.stored_records = records


async def _part(cluster: Cluster, run: Run, child: Child, key: str, memory: RunMemory) -> bytes | None:
    """What the ConfigMap holds under the key. One that somebody deleted is missed, not waited for."""
    try:
        return stored_part(await cluster.get("ConfigMap", namespace=run.namespace, name=child.name), key)
    except (NotFound, ValueError) as error:
        _refuse(run, child, error, memory)
        return None


def _refuse(run: Run, child: Child, error: Exception, memory: RunMemory) -> None:
    """Immutable and ours, so somebody went to some length; the run must not stand still for it."""
    memory.refuse(f"ConfigMap {child.name}: {error}"[:500])
    logger.warning("%s/%s: ConfigMap %s is not readable: %s", run.namespace, run.name, child.name, error)


def _kept(run: Run, children: Children, *roles: str) -> list[Child]:
    return [c for c in children.objects if c.kind == "ConfigMap" and c.role in roles and c.owner_uid == run.uid]
