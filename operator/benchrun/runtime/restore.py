"""Reading back what a run has stored: after a restart the cluster is the memory."""

from __future__ import annotations

import base64
import logging

from benchrun_client.contract import open_record

from benchrun.api import names
from benchrun.effects.kubernetes_api import Cluster
from benchrun.measure.samples import Sample
from benchrun.measure.timeline import decode
from benchrun.observe.views import Child, Children, Run
from benchrun.plan.stored import RECORD_KEY, TIMELINE_KEY
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.packed import Readings

logger = logging.getLogger(__name__)


async def restore(cluster: Cluster, run: Run, children: Children, memory: RunMemory) -> None:
    """Load the run's records and timeline, once. Raises ClusterError; then nothing is kept and it is tried again."""
    records: dict[int, bytes] = {}
    samples: list[Sample] = []
    for child in _kept(run, children):
        body = await cluster.get("ConfigMap", namespace=run.namespace, name=child.name)
        data = body.get("binaryData") or {}
        try:
            if RECORD_KEY in data:
                packed = base64.b64decode(data[RECORD_KEY])
                records[open_record(packed).sequence] = packed
            if TIMELINE_KEY in data:
                samples += decode(base64.b64decode(data[TIMELINE_KEY])).samples
        except ValueError as error:
            # Immutable and ours, so somebody went to some length; the run must not stand still for it.
            memory.refuse(f"ConfigMap {child.name}: {error}"[:500])
            logger.warning("%s/%s: ConfigMap %s is not readable: %s", run.namespace, run.name, child.name, error)
    memory.records |= records
    # A chunk whose writing was not confirmed may have been stored twice.
    once = {(sample.role, sample.pod, round(sample.at, 3)): sample for sample in samples}
    memory.stored_samples = Readings.of(sorted(once.values(), key=lambda sample: sample.at))
    memory.restored = True


def _kept(run: Run, children: Children) -> list[Child]:
    roles = (names.ROLE_STAGE, names.ROLE_TIMELINE)
    return [c for c in children.objects if c.kind == "ConfigMap" and c.role in roles and c.owner_uid == run.uid]
