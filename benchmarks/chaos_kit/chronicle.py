"""What the cluster holds and has held.

It consists of pictures of all namespaces, and the memory of what was created for which run.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun_client.contract import PLAN_FILE
from runs_kit.cluster import PATHS, Cluster, Json, Picture

REPLICA_SETS = {"ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets"}
SWEEPS = {SWEEP_KIND: "/apis/benchrun.dev/v1alpha1/namespaces/{}/benchmarksweeps"}
KINDS = {**PATHS, **REPLICA_SETS, **SWEEPS}
CHILDREN = (
    "ConfigMap",
    "NetworkPolicy",
    "Service",
    "Job",
    "Deployment",
    "ReplicaSet",
    "Pod",
)
HOLDERS = ("Deployment", "ReplicaSet")


def ending(body: Json) -> tuple[str | None, str]:
    """Return how a run or a sweep has ended (None: not yet), and its message."""
    status = body.get("status", {})
    for condition in status.get("conditions", []):
        if (
            condition["type"] in ("Complete", "Failed")
            and condition["status"] == "True"
        ):
            is_complete = condition["type"] == "Complete"
            return "Completed" if is_complete else condition["reason"], condition[
                "message"
            ]
    return None, f"{status.get('phase')}: {status.get('message')}"


class Chronicle:
    """The past and present of some namespaces."""

    def __init__(
        self,
        api: Cluster,
        namespaces: tuple[str, ...],
        *,
        of_pods: Callable[[str, str, Json], None],
    ) -> None:
        self._of_pods = of_pods
        self.pictures = {
            name: Picture(api, name, paths=KINDS, notify=partial(self._heard, name))
            for name in namespaces
        }
        self.made: dict[tuple[str, str], set[str]] = defaultdict(set)
        """Uids of all Jobs and Deployments that ever existed, by kind and uid of the run."""
        self.runs: dict[str, set[str]] = defaultdict(set)
        """Names of all runs that ever existed, by namespace."""
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        """Instant at which a run ended (`time.monotonic()`), by uid."""

    def start(self) -> None:
        """Start watching."""
        for picture in self.pictures.values():
            picture.start()

    def stop(self) -> None:
        """Stop watching."""
        for picture in self.pictures.values():
            picture.stop()

    def check(self) -> None:
        """Raise the error that broke a watch, if any."""
        for picture in self.pictures.values():
            picture.check()

    def object(self, namespace: str, kind: str, name: str) -> Json | None:
        """Return the present state of an object, or None when there is none."""
        return self.pictures[namespace].objects[kind].get(name)

    def uid(self, namespace: str, run: str) -> str | None:
        """Return the uid of the run that has this name now, or None when there is none."""
        body = self.object(namespace, names.KIND, run)
        return None if body is None else body["metadata"]["uid"]

    def plan(self, namespace: str, run: str, uid: str) -> str | None:
        """Return the text of a run's plan, or None when there is none."""
        body = self.object(namespace, "ConfigMap", names.plan_name(run, uid))
        return None if body is None else body["data"][PLAN_FILE]

    def children(
        self, namespace: str, kind: str, uid: str, role: str
    ) -> list[Json]:
        """Return a run's objects of a kind for a role, by labels."""
        wanted = {names.LABEL_RUN_UID: uid, names.LABEL_ROLE: role}.items()
        return [
            o
            for o in self.pictures[namespace].objects[kind].values()
            if wanted <= _labels(o)
        ]

    def records(self, namespace: str, uid: str) -> Iterator[tuple[int, str]]:
        """Yield sequence and digest of each stored record of a run."""
        for body in self.children(namespace, "ConfigMap", uid, names.ROLE_STAGE):
            meta = body["metadata"]
            digest = json.loads(meta["annotations"][names.ANNOTATION_ENVELOPE])[
                "digest"
            ]
            yield int(meta["labels"][names.LABEL_SEQUENCE]), digest

    def of_runs(self, namespace: str) -> Iterator[tuple[str, Json]]:
        """Yield kind and body of everything that has a run's label and was not orphaned by hand."""
        objects = self.pictures[namespace].objects
        labelled = [
            (kind, body)
            for kind in CHILDREN
            for body in objects[kind].values()
            if names.LABEL_RUN_UID in dict(_labels(body))
        ]
        orphans = {
            body["metadata"]["uid"] for _, body in labelled if not _owners(body)
        }
        for kind, body in labelled:  # a ReplicaSet comes before its pods
            if orphans & _owners(body):
                orphans.add(body["metadata"]["uid"])
            elif body["metadata"]["uid"] not in orphans:
                yield kind, body

    def orphans(self, namespace: str) -> list[tuple[str, str]]:
        """Return kind and name of what has a run's label and no owner, or an owner without one."""
        kept = {body["metadata"]["uid"] for _, body in self.of_runs(namespace)}
        return [
            (kind, name)
            for kind in CHILDREN
            for name, body in self.pictures[namespace].objects[kind].items()
            if names.LABEL_RUN_UID in dict(_labels(body))
            and body["metadata"]["uid"] not in kept
        ]

    def _heard(self, namespace: str, kind: str, event: str, body: Json) -> None:
        uid = body["metadata"]["uid"]
        if kind == "Pod":
            self._of_pods(namespace, event, body)
        elif kind == names.KIND and event != "DELETED":
            self.runs[namespace].add(body["metadata"]["name"])
            self.began.setdefault(uid, time.monotonic())
            if ending(body)[0] is not None:
                self.ended.setdefault(uid, time.monotonic())
        elif kind in ("Job", "Deployment"):
            run = dict(_labels(body)).get(names.LABEL_RUN_UID)
            if run is not None:
                self.made[kind, run].add(uid)


def _labels(body: Json) -> Any:
    return body["metadata"].get("labels", {}).items()


def _owners(body: Json) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences", ())}


async def polled(holds: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition; return whether it holds within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True
