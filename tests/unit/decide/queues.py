"""Runs that wait in a queue of Kueue, step by step."""

from dataclasses import replace
from typing import Any

from benchrun import names
from benchrun.child_kinds import WORKLOAD
from benchrun.decide import Answer, Flavors, Query
from benchrun.observe import Child, Flavor, Quota
from unit.decide.scenes import CONTEXT, Scene
from unit.plan.specs import OWNER

QUEUE = "gpus"
WITH_KUEUE = replace(CONTEXT, kueue=True)
WAITING = Scene(labels=((names.LABEL_QUEUE, QUEUE),), context=WITH_KUEUE)
NO_ROOM = Quota(
    waits="couldn't assign flavors to pod set server: insufficient quota"
)
GRANTED = Quota(
    is_admitted=True, flavors=(("server", ("h200",)), ("client", ("cpu",)))
)
PREEMPTED = Quota(evicted="Preempted: Preempted to accommodate a workload")
H200 = Flavor(
    "h200",
    (("nvidia.com/gpu.product", "H200"),),
    ((("key", "gpu"), ("operator", "Exists"), ("effect", "NoSchedule")),),
)
CPU = Flavor("cpu")
KNOWN: dict[Query[Any], Answer[Any]] = {
    Flavors(("cpu", "h200")): Answer((CPU, H200))
}


def workload(
    quota: Quota | None = None, *, attempt: int = 1, **changes: Any
) -> Child:
    """Return the Workload of an attempt, of which Kueue says this."""
    name = names.queued_name(OWNER.name, OWNER.uid, attempt)
    child = Child(
        kind=WORKLOAD,
        name=name,
        uid=f"{name}-uid",
        role=names.ROLE_QUEUE,
        owner_uid=OWNER.uid,
        deleting=False,
        quota=quota,
    )
    return replace(child, **changes)


def told(scene: Scene, quota: Quota | None, **changes: Any) -> Scene:
    """Return the scene in which Kueue says this of the run's only Workload."""
    others = tuple(child for child in scene.objects if child.kind != WORKLOAD)
    return replace(scene, objects=(*others, workload(quota, **changes)))


def admitted() -> Scene:
    """Return the scene of a run whose quota is noted."""
    scene = told(WAITING.settled(), GRANTED).with_answers(KNOWN)
    return scene.at(5).settled()


def measuring() -> Scene:
    """Return the scene of a queued run that is being measured and has stored a record."""
    return replace(admitted().measuring(), labels=WAITING.labels).stored(0)
