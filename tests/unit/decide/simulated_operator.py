"""An operator in a few lines: a stale view of the cluster, a memory that can be lost, and `decide` in between.

It carries decisions out in the order that `Decision` promises, and can be cut off between any two of its actions.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from benchrun.decide.decision import Arrival, Collected, Decision, World
from benchrun.decide.reconcile import decide
from benchrun.measure.samples import Sample
from benchrun.observe.views import Child, Children, Pod, Run
from benchrun.plan.stored import RECORD_KEY
from benchrun_client.contract import open_record
from unit.decide.scenes import CONTEXT, instant
from unit.decide.simulated_cluster import Identity, SimulatedCluster
from unit.plan.specs import OWNER, Json

K = TypeVar("K")
V = TypeVar("V")


class CutOff(Exception):
    """The process, or the connection, ended here."""


@dataclass
class SimulatedOperator:
    """What the operator sees and remembers."""

    cluster: SimulatedCluster
    spec: Json
    collected: Collected = field(default_factory=Collected)
    objects: dict[Identity, Child] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    status_version: int = 0
    decision: Decision | None = None
    ends: list[str] = field(default_factory=list)
    """Reasons of warning and ending events that were posted."""

    # ---- what it learns --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Anew: memory is lost, the watches list everything."""
        self.collected, self.decision = Collected(), None
        self.sync()

    def sync(self) -> None:
        """A list of everything."""
        self.objects, self.pods = dict(self.cluster.objects), dict(self.cluster.pods)
        self.status, self.status_version = dict(self.cluster.status), self.cluster.status_version

    def watch(self, share: int) -> None:
        """Some of the news arrive, in any order; others are late."""
        identities = sorted(self.cluster.objects.keys() | self.objects.keys())
        for position, identity in enumerate(identities):
            if (share >> position % 8) & 1:
                _take_over(self.objects, self.cluster.objects, identity)
        for position, pod in enumerate(sorted(self.cluster.pods.keys() | self.pods.keys())):
            if (share >> (position + 5) % 8) & 1:
                _take_over(self.pods, self.cluster.pods, pod)

    def hear(self) -> None:
        """The client answers, if it is being followed and still there: at most two records at once."""
        client = self.cluster.client
        if client is None or self.decision is None or self.decision.pull is None:
            return
        known = self.collected.sequences
        new = [a for a in client.records[self.decision.pull.from_sequence :] if a.sequence not in known][:2]
        self.collected = replace(
            self.collected,
            progress=client.progress,
            arrivals=(*self.collected.arrivals, *new),
            sequences=known | {a.sequence for a in new},
            search_ends={**self.collected.search_ends, **{a.sequence: a.ends_search for a in new if a.ends_search}},
        )
        self._let_go_what_is_stored()

    def scrape(self) -> None:
        """A page is read, if one is to be read and the server is there."""
        if self.decision is None or not self.decision.scrape or "server-1" not in self.cluster.pods:
            return
        read = Sample(at=instant(self.cluster.now).timestamp(), role="server", pod="server-1", running=1.0)
        self.collected = replace(
            self.collected,
            samples=(*self.collected.samples, read),
            unstored_samples=(*self.collected.unstored_samples, read),
        )

    # ---- what it does ----------------------------------------------------------------------------------------------

    def work(self, *, cut_after: int | None = None) -> None:
        """One pass; `cut_after` so many actions it breaks off."""
        self.decision = decide(self._world())
        try:
            for done, action in enumerate(self._actions(self.decision)):
                if done == cut_after:
                    raise CutOff
                action()
        except CutOff:
            return
        decision = self.decision
        if decision.log_wanted is not None:
            self.collected = replace(self.collected, log_tail=self.cluster.server_log, log_tail_tried=True)
        if decision.forget:
            self.collected, self.decision = Collected(), None

    def _actions(self, decision: Decision) -> Iterator[Callable[[], None]]:
        world = self._world()
        for ref in decision.delete:
            yield lambda ref=ref: self._delete(ref.kind, ref.name, ref.uid)  # type: ignore[misc]
        for manifest in decision.apply:
            yield lambda m=manifest: self._apply(m)  # type: ignore[misc]
        yield lambda: self._acknowledge(decision)
        if decision.read_back:
            yield self._read_back
            collected = replace(self.collected, log_searched=True)
            self.decision = decision = decide(replace(world, collected=collected))
        yield lambda: self._write(decision)

    def _read_back(self) -> None:
        """All that is stored is at hand, once more."""
        maps = [m for (kind, _), m in self.cluster.manifests.items() if kind == "ConfigMap"]
        stored = [open_record(base64.b64decode(m["binaryData"][RECORD_KEY])) for m in maps if _holds_record(m)]
        records = {r.sequence: r for r in (*stored, *(a.record for a in self.collected.arrivals))}
        self.collected = replace(self.collected, records=tuple(records[s] for s in sorted(records)), read_back=True)

    def _let_go_what_is_stored(self) -> None:
        left = tuple(a for a in self.collected.arrivals if not self._is_stored(a))
        self.collected = replace(self.collected, arrivals=left, records=tuple(a.record for a in left))

    def _delete(self, kind: str, name: str, uid: str | None) -> None:
        self.cluster.delete(kind, name, uid)
        self._learn(kind, name)

    def _apply(self, manifest: dict[str, Any]) -> None:
        self.cluster.create(manifest)
        self._learn(manifest["kind"], manifest["metadata"]["name"])
        self._let_go_what_is_stored()
        if "timeline.json.gz" in manifest.get("binaryData", {}):
            chunks = sum(c.role == "timeline" for c in self.objects.values())
            self.collected = replace(self.collected, unstored_samples=(), timeline_chunks=chunks)

    def _acknowledge(self, decision: Decision) -> None:
        if decision.acknowledge is not None and self.cluster.client is not None:
            self.cluster.client.through = max(self.cluster.client.through, decision.acknowledge)

    def _write(self, decision: Decision) -> None:
        status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if status != self.status:
            written = self.cluster.write_status(status, version=self.status_version)
            self.status, self.status_version = dict(self.cluster.status), self.cluster.status_version
            if not written:
                raise CutOff
        self.ends += [e.reason for e in decision.events if decision.forget]

    def _learn(self, kind: str, name: str) -> None:
        """What one wrote oneself one knows."""
        _take_over(self.objects, self.cluster.objects, (kind, name))

    def _is_stored(self, came: Arrival) -> bool:
        return any(c.role == "stage" and c.sequence == came.sequence for c in self.objects.values())

    def _world(self) -> World:
        run = Run(OWNER.namespace, OWNER.name, OWNER.uid, generation=1, spec=dict(self.spec), status=dict(self.status))
        children = Children(objects=tuple(self.objects.values()), pods=tuple(self.pods.values()))
        now = instant(self.cluster.now)
        return World(run=run, children=children, collected=self.collected, now=now, context=CONTEXT)


def _take_over(known: dict[K, V], real: dict[K, V], key: K) -> None:
    if key in real:
        known[key] = real[key]
    else:
        known.pop(key, None)


def _holds_record(manifest: dict[str, Any]) -> bool:
    return RECORD_KEY in manifest.get("binaryData", {})
