"""Reading back what a run has stored: after a restart its timeline and its server's words, and when it is judged its records."""

from __future__ import annotations

import logging

from benchrun.api import names
from benchrun.effects.errors import NotFound
from benchrun.effects.kubernetes_api import Cluster
from benchrun.measure.samples import Sample
from benchrun.measure.timeline import decode, once
from benchrun.observe.views import Child, Children, Run
from benchrun.plan.stored import RECORD_KEY, TIMELINE_KEY, stored_compilations, stored_part, stored_record
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.packed import Readings

logger = logging.getLogger(__name__)


async def restore_timeline(cluster: Cluster, run: Run, children: Children, memory: RunMemory) -> None:
    """Load the run's timeline and what the server's log told, once. Raises ClusterError; then nothing is kept and it is tried
    again."""
    samples: list[Sample] = []
    told: tuple[float, ...] | None = None
    for child in _kept(run, children, names.ROLE_STAGE, names.ROLE_TIMELINE):
        try:
            body = await cluster.get("ConfigMap", namespace=run.namespace, name=child.name)
            packed = stored_part(body, TIMELINE_KEY)
            samples += decode(packed).samples if packed is not None else ()
            told = stored_compilations(body) if told is None else told
        except (NotFound, ValueError) as error:
            _refuse(run, child, error, memory)
    memory.stored_samples = Readings.of(once(samples))
    if told is not None:
        memory.compilations, memory.log_searched = told, True
    memory.restored = True


async def read_back(cluster: Cluster, run: Run, children: Children, memory: RunMemory) -> dict[int, bytes]:
    """The run's stored records, packed, by sequence; memory is told of those that can't be read. Raises ClusterError."""
    records: dict[int, bytes] = {}
    for child in _kept(run, children, names.ROLE_STAGE):
        try:
            packed = stored_part(await cluster.get("ConfigMap", namespace=run.namespace, name=child.name), RECORD_KEY)
            if packed is not None:
                records[stored_record(packed, run_uid=run.uid, sequence=child.sequence).sequence] = packed
        except (NotFound, ValueError) as error:
            _refuse(run, child, error, memory)
    return records


def _refuse(run: Run, child: Child, error: Exception, memory: RunMemory) -> None:
    """Immutable and ours, so somebody went to some length; the run must not stand still for it. One that somebody deleted is
    missed, not waited for."""
    memory.refuse(f"ConfigMap {child.name}: {error}"[:500])
    logger.warning("%s/%s: ConfigMap %s is not readable: %s", run.namespace, run.name, child.name, error)


def _kept(run: Run, children: Children, *roles: str) -> list[Child]:
    return [c for c in children.objects if c.kind == "ConfigMap" and c.role in roles and c.owner_uid == run.uid]
