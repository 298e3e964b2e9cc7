"""A simple simulated operator: a stale view of the cluster, a losable memory, and `decide`.

It carries decisions out in the order that `Decision` promises, and can be cut off between any two
of its actions.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchrun import names
from benchrun.api import BenchmarkRunSpec, RunIdentity
from benchrun.child_kinds import SERVER_KINDS
from benchrun.decide import (
    Answer,
    Collected,
    Decision,
    Evaluation,
    Facts,
    Judging,
    LogTail,
    Query,
    decide,
)
from benchrun.judge.document_size import packed_document
from benchrun.judge.judged_run import Surroundings, judged_run
from benchrun.measure.metrics_page import Sample
from benchrun.observe import Child, Children, Pod, Run
from benchrun.plan import RECORD_KEY, PackedResult
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
    # queries under way
    open_lookups: dict[Query[Any], None] = field(default_factory=dict)
    # reasons of warning and ending events that were posted
    ends: list[str] = field(default_factory=list)

    # ---- what it learns
    # --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start anew: memory is lost, the watches list everything."""
        self._forget()
        self.sync()

    def sync(self) -> None:
        self.objects = dict(self.cluster.objects)
        self.pods = dict(self.cluster.pods)
        self.status = dict(self.cluster.status)
        self.status_version = self.cluster.status_version

    def watch(self, share: int) -> None:
        """Receive some of the news, in any order; the others are late."""
        identities = sorted(self.cluster.objects.keys() | self.objects.keys())
        for position, identity in enumerate(identities):
            if (share >> position % 8) & 1:
                _take_over(self.objects, self.cluster.objects, identity)
        for position, pod in enumerate(
            sorted(self.cluster.pods.keys() | self.pods.keys())
        ):
            if (share >> (position + 5) % 8) & 1:
                _take_over(self.pods, self.cluster.pods, pod)

    def follow_client(self) -> None:
        """Receive the client's answer, if it is followed and there: at most two records at once."""
        client = self.cluster.client
        if client is None or self.decision is None or self.decision.pull is None:
            return
        wanted = self.collected.next_sequence(self.decision.pull.from_sequence)
        self.collected.client.progress = client.progress
        for came in client.records[wanted : wanted + 2]:
            self.collected.take(came)
        if wanted < client.through:
            self.collected.client.lost_record = wanted

    def scrape(self) -> None:
        """Read a metrics page, if one is wanted and the server is there."""
        if (
            self.decision is None
            or not self.decision.scrape
            or "server-1" not in self.cluster.pods
        ):
            return
        at = instant(self.cluster.now).timestamp()
        self.collected.samples.add(
            Sample(at=at, role="server", pod="server-1", running=1.0)
        )

    def look_up(self) -> None:
        """Answer all open queries."""
        for query in self.open_lookups:
            self.collected.answers[query] = Answer(self._answer(query))
        self.open_lookups = {}

    # ---- what it does
    # ----------------------------------------------------------------------------------------------

    def work(self, *, cut_after: int | None = None) -> None:
        """Reconcile once; break off after `cut_after` actions."""
        self._let_go_what_is_stored()
        self.decision = decide(self._world())
        try:
            for done, action in enumerate(self._actions(self.decision)):
                if done == cut_after:
                    raise CutOff
                action()
        except CutOff:
            return
        if self.decision.forget:
            self._forget()

    def _actions(self, decision: Decision) -> Iterator[Callable[[], None]]:
        self.collected.ending = decision.ending or self.collected.ending
        if decision.last_words is not None:
            self.collected.answers[decision.last_words] = Answer(
                self.cluster.server_log
            )
        self.open_lookups |= dict.fromkeys(
            q for q in decision.lookups if q not in self.collected.answers
        )
        if (
            any(ref.kind in SERVER_KINDS for ref in decision.delete)
            and self.collected.released_at is None
        ):
            self.collected.released_at = instant(self.cluster.now)
        for ref in decision.delete:
            yield lambda ref=ref: self._delete(ref.kind, ref.name, ref.uid)  # type: ignore[misc]
        if decision.last_words is not None:
            return
        for manifest in decision.apply:
            yield lambda m=manifest: self._apply(m)  # type: ignore[misc]
        yield lambda: self._acknowledge(decision)
        yield lambda: self._write(decision)

    def _answer(self, query: Query[Any]) -> str | Evaluation | None:
        if isinstance(query, LogTail):
            return self.cluster.server_log
        return self._judgement(query) if isinstance(query, Judging) else None

    def _judgement(self, query: Judging) -> Evaluation:
        """Judge the run by all stored and received records."""
        maps = [
            m
            for (kind, _), m in self.cluster.manifests.items()
            if kind == "ConfigMap"
        ]
        packed = [
            base64.b64decode(m["binaryData"][RECORD_KEY])
            for m in maps
            if RECORD_KEY in m.get("binaryData", {})
        ]
        opened = map(
            open_record,
            [
                *packed,
                *(arrival.body for arrival in self.collected.arrivals.values()),
            ],
        )
        records = {record.sequence: record for record in opened}
        judgement, document = judged_run(
            Surroundings(
                identity=RunIdentity(
                    namespace=OWNER.namespace, name=OWNER.name, uid=OWNER.uid
                ),
                servers=query.servers,
                client=query.client,
                instants=query.instants,
                ending=query.ending,
            ),
            BenchmarkRunSpec.model_validate(self.spec),
            [records[s] for s in sorted(records)],
            (),
        )
        return Evaluation(
            judgement, PackedResult.of(packed_document(document).data)
        )

    def _let_go_what_is_stored(self) -> None:
        for child in self.objects.values():
            if child.role == "stage" and child.sequence is not None:
                self.collected.arrivals.pop(child.sequence, None)

    def _forget(self) -> None:
        self.collected = Collected()
        self.decision = None
        self.open_lookups = {}

    def _delete(self, kind: str, name: str, uid: str | None) -> None:
        self.cluster.delete(kind, name, uid)
        self._learn(kind, name)

    def _apply(self, manifest: dict[str, Any]) -> None:
        self.cluster.create(manifest)
        self._learn(manifest["kind"], manifest["metadata"]["name"])
        if "timeline.json.gz" in manifest.get("binaryData", {}):
            self.collected.samples.stored(
                through=float(
                    manifest["metadata"]["annotations"][names.ANNOTATION_THROUGH]
                )
            )

    def _acknowledge(self, decision: Decision) -> None:
        if decision.acknowledge is not None and self.cluster.client is not None:
            self.cluster.client.through = max(
                self.cluster.client.through, decision.acknowledge
            )

    def _write(self, decision: Decision) -> None:
        status = decision.status.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        if status != self.status:
            written = self.cluster.write_status(status, version=self.status_version)
            self.status = dict(self.cluster.status)
            self.status_version = self.cluster.status_version
            if not written:
                raise CutOff
        self.ends += [e.reason for e in decision.events if decision.forget]

    def _learn(self, kind: str, name: str) -> None:
        """Take over an object that this operator wrote itself, without waiting for the watch."""
        _take_over(self.objects, self.cluster.objects, (kind, name))

    def _world(self) -> Facts:
        run = Run(
            OWNER.namespace,
            OWNER.name,
            OWNER.uid,
            generation=1,
            spec=dict(self.spec),
            status=dict(self.status),
        )
        children = Children(
            objects=tuple(self.objects.values()), pods=tuple(self.pods.values())
        )
        now = instant(self.cluster.now)
        return Facts(
            run=run,
            children=children,
            collected=self.collected,
            now=now,
            context=CONTEXT,
        )


def _take_over(known: dict[K, V], real: dict[K, V], key: K) -> None:
    if key in real:
        known[key] = real[key]
    else:
        known.pop(key, None)
