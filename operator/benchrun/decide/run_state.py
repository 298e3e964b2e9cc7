"""One pass's facts, worked out once: the checked spec, and where a run stands, derived from what
can be seen."""

from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from hashlib import sha256

from pydantic import ValidationError

from benchrun import names
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Blocked,
    first_problem,
    timestamp,
    without,
)
from benchrun.decide.decision import Collected, Ending, Facts, LogTail
from benchrun.observe import NO_SPEC, Child, Children, Pod, Run
from benchrun.plan import (
    Owner,
    division_of,
    most_probe_stages,
    nodes,
    role_replicas,
    searched,
    stage_ids,
    token_of,
)


class Unacceptable(ValueError):
    """The spec can't be acted on; the text names the field and what is wrong with it."""


def accept(run: Run, *, begun: bool = False) -> BenchmarkRunSpec:
    """The spec, checked. Raises Unacceptable naming the field's path. `begun`: the run has a server
    or records, made by what is settled, so that a field of a newer operator, which made them, is
    left out."""
    try:
        return BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        if begun and all(
            each["type"] == "extra_forbidden" for each in error.errors(include_url=False)
        ):
            return accept(
                replace(run, spec=without(run.spec, [each["loc"] for each in error.errors()]))
            )
        raise Unacceptable(first_problem(error) if run.spec else NO_SPEC) from error


_planned: dict[bytes, tuple[str, ...]] = {}
"""By digest of spec and uid. To lay out 256 stages takes longer than all the rest of a decision,
and they never change."""


@dataclass(frozen=True)
class Possessions:
    """A run, its facts, and what is its own; whatever its spec says, or no longer says."""

    facts: Facts
    status: BenchmarkRunStatus

    @property
    def now(self) -> datetime:
        return self.facts.now

    @property
    def collected(self) -> Collected:
        return self.facts.collected

    @cached_property
    def owner(self) -> Owner:
        run = self.facts.run
        return Owner(namespace=run.namespace, name=run.name, uid=run.uid)

    @cached_property
    def children(self) -> Children:
        """Only what is ours by uid: a label alone proves nothing."""
        uid = self.facts.run.uid
        labelled = self.facts.children
        objects = tuple(c for c in labelled.objects if c.owner_uid == uid)
        return Children(objects, tuple(p for p in labelled.pods if p.run_uid == uid))

    def child(self, kind: str, role: str) -> Child | None:
        """Our object of that kind and role, unless it is on its way out."""
        return self._unless_deleting(kind, names.child_name(self.owner.name, self.owner.uid, role))

    def _unless_deleting(self, kind: str, name: str) -> Child | None:
        found = self.children.named(kind, name)
        return found if found is not None and not found.deleting else None

    @cached_property
    def client_pods(self) -> tuple[Pod, ...]:
        """The client's pods, the first of them first: one attempt each."""
        return tuple(sorted(self.children.role_pods(names.ROLE_CLIENT), key=lambda pod: pod.rank))


@dataclass(frozen=True)
class RunState(Possessions):
    """A valid run, its facts, and where it stands."""

    spec: BenchmarkRunSpec

    @cached_property
    def planned(self) -> tuple[str, ...]:
        """Ids of all stages whose load is listed, in order. Those of searches come after them."""
        digest = sha256(
            f"{self.owner.uid} {self.spec.model_dump_json(by_alias=True)}".encode()
        ).digest()
        if digest not in _planned:
            while len(_planned) >= 128:
                del _planned[next(iter(_planned))]
            _planned[digest] = stage_ids(self.spec, run_uid=self.owner.uid)
        return _planned[digest]

    @cached_property
    def most_stages(self) -> int:
        return len(self.planned) + most_probe_stages(self.spec)

    @cached_property
    def total_stages(self) -> int | None:
        """How many stages there are; None: a search goes on, or its last record has not come."""
        if not (searches := searched(self.spec).keys()):
            return len(self.planned)
        stages = [
            (c.sequence, c.ends_search) for c in self.children.objects if c.role == names.ROLE_STAGE
        ]
        stored = {
            sequence: end for sequence, end in stages if sequence is not None and end is not None
        }
        all_ends = stored | self.collected.search_ends
        ends = {
            s: name for s, name in all_ends.items() if s >= len(self.planned) and name in searches
        }
        return max(ends) + 1 if set(ends.values()) == searches else None

    @property
    def stages_in_words(self) -> str:
        """That number, or its bound, for a sentence."""
        return (
            f"at most {self.most_stages}" if self.total_stages is None else str(self.total_stages)
        )

    def workload(self, role: str) -> Child | None:
        """What makes the pods of a serving role, unless it is on its way out."""
        if nodes(self.spec) == 1:
            return self.child("Deployment", role)
        return self._unless_deleting(
            "LeaderWorkerSet", names.group_name(self.owner.name, self.owner.uid)
        )

    @cached_property
    def plan(self) -> Child | None:
        """The ConfigMap of the plan that stands, also while it is on its way out."""
        return self.children.named("ConfigMap", names.plan_name(self.owner.name, self.owner.uid))

    @cached_property
    def token(self) -> str:
        """What the client is shown; by this operator's key."""
        return token_of(self.facts.context.channel_key, self.owner.uid)

    @property
    def plan_digest(self) -> str | None:
        """Of the plan that the client was given, as it was noted when that was made; None: it was
        not."""
        job = self.child("Job", names.ROLE_CLIENT)
        noted = (each.plan_digest for each in (job, self.plan) if each is not None)
        return next(filter(None, noted), None)

    @property
    def ending(self) -> Ending | None:
        """Why the run ends, if an earlier pass found out: by memory, else by the status."""
        kept = self.status.ending
        return self.collected.ending or (
            Ending(kept.reason, kept.message) if kept is not None else None
        )

    @property
    def blocked(self) -> Blocked | None:
        """What kept the run waiting at the last pass, and since when: by memory, else by the
        status."""
        return self.collected.blocked or self.status.blocked

    @property
    def log_tails(self) -> list[str | None]:
        """What came of reading the failed server's log: its end, or None; empty where it was not
        looked up."""
        return [
            answer.value
            for question, answer in self.collected.answers.items()
            if isinstance(question, LogTail)
        ]

    @property
    def log_tail(self) -> str | None:
        """The end of the failed server's log, where it could be read."""
        return next(filter(None, self.log_tails), None)

    @cached_property
    def stored(self) -> frozenset[int]:
        """Sequences whose ConfigMap exists."""
        stages = (c.sequence for c in self.children.objects if c.role == names.ROLE_STAGE)
        return frozenset(sequence for sequence in stages if sequence is not None)

    @cached_property
    def known(self) -> frozenset[int]:
        """Sequences that are stored or have arrived."""
        return self.stored | self.collected.sequences

    @property
    def all_known(self) -> bool:
        """Whether every record is here: the server has nothing left to do."""
        return self.total_stages is not None and self.known.issuperset(range(self.total_stages))

    @property
    def all_measured(self) -> bool:
        """Whether every record is here but that of the profile, which nothing that was measured
        depends on."""
        listed = len(self.planned) - (self.spec.measurement.profile is not None)
        return self.all_known or (not searched(self.spec) and self.known.issuperset(range(listed)))

    def stored_prefix(self, also: Set[int] = frozenset()) -> int:
        """Records 0 .. n-1 are stored, without a gap. `also`: those that are stored in a moment."""
        return next(
            (n for n in range(self.most_stages) if n not in self.stored and n not in also),
            self.most_stages,
        )

    @cached_property
    def client_pod(self) -> Pod | None:
        """The one that is polled, which has the records of all."""
        return next((pod for pod in reversed(self.client_pods) if pod.rank == 0), None)

    @property
    def client_runs(self) -> bool:
        """Whether the client's process can be polled."""
        pod = self.client_pod
        return (
            pod is not None and pod.phase == "Running" and pod.ip is not None and not pod.deleting
        )

    @property
    def client_heard(self) -> bool:
        """Whether the client has answered this operator since it started."""
        return self.collected.client.progress is not None

    @property
    def client_ready(self) -> bool:
        """Plan, tokenizer and data found by all its pods that stay; once the measurement goes on,
        they must have been."""
        ready = {pod.rank for pod in self.client_pods if pod.ready and not pod.deleting}
        return self.status.server_ready_time is not None or ready.issuperset(
            range(division_of(self.spec).pods)
        )

    @cached_property
    def server_pods(self) -> tuple[Pod, ...]:
        """Pods of every role that serves; those of a role oldest first."""
        return tuple(pod for role in self.server_roles for pod in self.children.role_pods(role))

    @property
    def server_roles(self) -> tuple[str, ...]:
        return tuple(role_replicas(self.spec))

    def serving_as(self, role: str) -> tuple[Pod, ...]:
        """Pods of the role that count: the newest, as many as there are to be. Older ones are
        leaving, or were replaced."""
        return self.children.role_pods(role)[-role_replicas(self.spec)[role] * nodes(self.spec) :]

    @cached_property
    def serving(self) -> tuple[Pod, ...]:
        """Pods of all roles that count."""
        return tuple(pod for role in self.server_roles for pod in self.serving_as(role))

    @property
    def server_exists(self) -> bool:
        """Whether a server, or a part of one, was created and not yet released."""
        return any(self.workload(role) is not None for role in self.server_roles)

    @property
    def is_released(self) -> bool:
        """Whether the servers' deletion was requested before this pass."""
        return (
            self.status.server_released_time is not None or self.collected.released_at is not None
        )

    @property
    def released_time(self) -> str | None:
        """When the servers' deletion was requested, or is requested now; None: it is not, or there
        were none."""
        requested = self.collected.released_at or (self.now if self.server_exists else None)
        return self.status.server_released_time or (
            timestamp(requested) if requested is not None else None
        )

    @property
    def measuring_started(self) -> bool:
        """Whether a measured request was sent."""
        progress = self.collected.client.progress
        heard = progress is not None and progress.first_request_unix_us is not None
        return heard or bool(self.known) or self.status.start_time is not None

    @property
    def was_ready(self) -> bool:
        """Whether the last pass knew already that the server was healthy: what it noted of the pods
        is of that server."""
        return self.facts.run.status.get("serverReadyTime") is not None

    @property
    def begun(self) -> bool:
        """Whether client and server have met. From here on nothing is created any more: it would be
        another measurement."""
        return self.status.server_ready_time is not None or self.measuring_started
