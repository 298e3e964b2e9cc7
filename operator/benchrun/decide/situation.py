"""One pass's facts, worked out once: where a run stands, derived from what can be seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from benchrun.api import names
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.decision import Collected, World
from benchrun.observe.views import Child, Children, Pod
from benchrun.plan.metadata import Owner
from benchrun.plan.stages import PlannedStage, stages


@dataclass(frozen=True)
class Situation:
    """A valid run and its world. Every question about "where are we" is answered here."""

    world: World
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus

    @property
    def now(self) -> datetime:
        """The pass's instant."""
        return self.world.now

    @property
    def collected(self) -> Collected:
        """What was measured so far."""
        return self.world.collected

    @cached_property
    def owner(self) -> Owner:
        """The run as an owner."""
        run = self.world.run
        return Owner(namespace=run.namespace, name=run.name, uid=run.uid)

    @cached_property
    def children(self) -> Children:
        """Only what is ours by uid: a label alone proves nothing."""
        uid = self.world.run.uid
        return Children(
            objects=tuple(c for c in self.world.children.objects if c.owner_uid == uid),
            pods=tuple(p for p in self.world.children.pods if p.run_uid == uid),
        )

    @cached_property
    def planned(self) -> tuple[PlannedStage, ...]:
        """All stages, in order."""
        return stages(self.spec, run_uid=self.owner.uid)

    def child(self, kind: str, role: str) -> Child | None:
        """Our object of that kind and role, unless it is on its way out."""
        found = self.children.named(kind, names.child_name(self.owner.name, role))
        return found if found is not None and not found.deleting else None

    # ---- records ---------------------------------------------------------------------------------------------------

    @cached_property
    def stored(self) -> frozenset[int]:
        """Sequences whose ConfigMap exists."""
        return frozenset(
            c.sequence for c in self.children.objects if c.role == names.ROLE_STAGE and c.sequence is not None
        )

    @cached_property
    def known(self) -> frozenset[int]:
        """Sequences that are stored or have arrived."""
        return self.stored | {a.sequence for a in self.collected.arrivals} | self.collected.sequences

    @property
    def all_known(self) -> bool:
        """Whether every record is here: the server has nothing left to do."""
        return len(self.known) == len(self.planned)

    @cached_property
    def stored_prefix(self) -> int:
        """Records 0 .. n-1 are stored, without a gap."""
        return next(n for n in range(len(self.planned) + 1) if n not in self.stored)

    # ---- client ----------------------------------------------------------------------------------------------------

    @cached_property
    def client_pod(self) -> Pod | None:
        """The client's pod: one attempt, one pod."""
        pods = self.children.role_pods(names.ROLE_CLIENT)
        return pods[-1] if pods else None

    @property
    def client_runs(self) -> bool:
        """Whether the client's process can be talked to."""
        pod = self.client_pod
        return pod is not None and pod.phase == "Running" and pod.ip is not None and not pod.deleting

    @property
    def client_heard(self) -> bool:
        """Whether the client has said anything to this operator since it started."""
        return self.collected.progress is not None

    @property
    def client_unheard(self) -> bool:
        """A ready client that is still being asked for its first word: it may hold every record, so nothing is judged yet."""
        asked = self.client_runs and self.client_ready and not self.collected.client_silent
        return asked and not self.client_heard

    @property
    def client_ready(self) -> bool:
        """Plan, tokenizer and data found. Once the measurement goes on, it must have been. A pod that is leaving is not it."""
        pod = self.client_pod
        return self.status.server_ready_time is not None or (pod is not None and pod.ready and not pod.deleting)

    # ---- server ----------------------------------------------------------------------------------------------------

    @cached_property
    def server_pods(self) -> tuple[Pod, ...]:
        """Pods of the server role, oldest first."""
        return self.children.role_pods(names.ROLE_SERVER)

    @property
    def server_exists(self) -> bool:
        """Whether a server was asked for and not yet released."""
        return self.child("Deployment", names.ROLE_SERVER) is not None

    @property
    def measuring_started(self) -> bool:
        """Whether a measured request was sent."""
        progress = self.collected.progress
        heard = progress is not None and progress.first_request_unix_us is not None
        return heard or bool(self.known) or self.status.start_time is not None

    @property
    def begun(self) -> bool:
        """Whether client and server have met. From here on nothing is created any more: it would be another measurement."""
        return self.status.server_ready_time is not None or self.measuring_started
