"""The state of a run in one reconcile, derived once from its checked spec and what is observed."""

from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Self, TypeVar

from pydantic import ValidationError

from benchrun import names
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Blocked,
    Placement,
    first_problem,
    timestamp,
    without,
)
from benchrun.child_kinds import WORKLOAD
from benchrun.decide.decision import Collected, Ending, Facts, LogTail
from benchrun.observe import NO_SPEC, Child, Children, Pod, Run
from benchrun.plan import (
    NOTHING_APPLIED,
    Applied,
    Owner,
    applied_to,
    at_commit,
    cache_of,
    chosen_stages,
    division_of,
    most_probe_stages,
    nodes,
    read_applied,
    role_replicas,
    searched,
    stage_ids,
    token_of,
    with_defaults,
)


class Unacceptable(ValueError):
    """The spec is not valid; the text names the field and what is wrong with it."""


def accept(run: Run, *, begun: bool = False) -> BenchmarkRunSpec:
    """Return the checked spec. Raise Unacceptable, which names the field's path.

    `begun`: the run already has a server or records, perhaps made by a newer operator. Fields that
    only the newer operator knows are then ignored.
    """
    try:
        return BenchmarkRunSpec.model_validate(run.spec)
    except ValidationError as error:
        if begun and all(
            each["type"] == "extra_forbidden"
            for each in error.errors(include_url=False)
        ):
            return accept(
                replace(
                    run,
                    spec=without(
                        run.spec, [each["loc"] for each in error.errors()]
                    ),
                )
            )
        raise Unacceptable(first_problem(error) if run.spec else NO_SPEC) from error


class PlannedStages:
    """Stage ids of the runs that were decided on last.

    Planning 256 stages takes longer than the rest of a decision, and the stages never change. A
    thousand usual runs fit.
    """

    def __init__(self, *, most_ids: int = 32_768) -> None:
        self._most_ids = most_ids
        self._ids = 0
        self._by_digest: dict[bytes, tuple[str, ...]] = {}

    def of(self, spec: BenchmarkRunSpec, run_uid: str) -> tuple[str, ...]:
        """Return the ids of all stages of a run whose load is listed, in order."""
        text = f"{run_uid} {spec.model_dump_json(by_alias=True)}"
        digest = sha256(text.encode()).digest()
        # Put last: what was not used for longest is dropped first.
        found = self._by_digest.pop(digest, None)
        if found is None:
            found = stage_ids(spec, run_uid=run_uid)
            self._ids += len(found)
        self._by_digest[digest] = found
        while self._ids > self._most_ids and len(self._by_digest) > 1:
            self._ids -= len(self._by_digest.pop(next(iter(self._by_digest))))
        return found


_planned = PlannedStages()
T = TypeVar("T")


class Lasting(cached_property[T]):
    """A cached property that no status changes: `with_status` hands its value on."""


@dataclass(frozen=True)
class Possessions:
    """A run, its observed state and the objects that it owns; its spec need not be valid."""

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

    @Lasting
    def children(self) -> Children:
        """Return only the objects that the run owns by uid: a label alone proves nothing."""
        uid = self.facts.run.uid
        labelled = self.facts.children
        objects = tuple(c for c in labelled.objects if c.owner_uid == uid)
        return Children(
            objects, tuple(p for p in labelled.pods if p.run_uid == uid)
        )

    def with_status(self, status: BenchmarkRunStatus) -> Self:
        """Return the state with another status; one reconcile calls this several times."""
        found = replace(self, status=status)
        found.__dict__.update(
            (name, value)
            for name, value in self.__dict__.items()
            if isinstance(getattr(type(self), name, None), Lasting)
        )
        return found

    def child(self, kind: str, role: str) -> Child | None:
        """Return the run's object of that kind and role, unless it is being deleted."""
        return self._unless_deleting(
            kind, names.child_name(self.owner.name, self.owner.uid, role)
        )

    def _unless_deleting(self, kind: str, name: str) -> Child | None:
        found = self.children.named(kind, name)
        return found if found is not None and not found.deleting else None

    @Lasting
    def client_pods(self) -> tuple[Pod, ...]:
        """Return the client's pods by rank, lowest first; pods of the same rank, oldest first."""
        return tuple(
            sorted(
                self.children.role_pods(names.ROLE_CLIENT), key=lambda pod: pod.rank
            )
        )


@dataclass(frozen=True)
class RunState(Possessions):
    """A valid run, what is observed of it, and the state it is in."""

    spec: BenchmarkRunSpec

    @Lasting
    def planned(self) -> tuple[str, ...]:
        """Return the ids of all stages that are measured for certain, in order.

        The stages of searches come after them.
        """
        return self._stages[0]

    @Lasting
    def repeated(self) -> frozenset[str]:
        """Return the ids of all stages that there may be with `repeats: Auto`, else none."""
        return self._stages[1]

    @Lasting
    def _stages(self) -> tuple[tuple[str, ...], frozenset[str]]:
        return chosen_stages(self.spec, _planned.of(self.spec, self.owner.uid))

    @Lasting
    def most_stages(self) -> int:
        return len(self.planned) + len(self.repeated) + most_probe_stages(self.spec)

    @Lasting
    def total_stages(self) -> int | None:
        """Return how many stages there are.

        None if a search, or what is repeated until it is decided, has not ended, or its last record
        was not received.
        """
        searches = searched(self.spec).keys()
        if not searches and not self.repeated:
            return len(self.planned)
        stages = [
            c.envelope
            for c in self.children.objects
            if c.role == names.ROLE_STAGE and c.envelope is not None
        ]
        stored = {
            e.sequence: e.ends_search for e in stages if e.ends_search is not None
        }
        all_ends = stored | self.collected.search_ends
        if self.repeated:
            return max(all_ends) + 1 if all_ends else None
        ends = {
            s: name
            for s, name in all_ends.items()
            if s >= len(self.planned) and name in searches
        }
        return max(ends) + 1 if set(ends.values()) == searches else None

    @property
    def stages_in_words(self) -> str:
        """Return the number of stages, or its bound, for a sentence."""
        return (
            f"at most {self.most_stages}"
            if self.total_stages is None
            else str(self.total_stages)
        )

    def workload(self, role: str) -> Child | None:
        """Return the object that makes the pods of a serving role, unless it is being deleted."""
        if nodes(self.spec) == 1:
            return self.child("Deployment", role)
        return self._unless_deleting(
            "LeaderWorkerSet", names.group_name(self.owner.name, self.owner.uid)
        )

    @Lasting
    def plan(self) -> Child | None:
        """Return the ConfigMap of the plan that exists, also while it is being deleted."""
        run = self.facts.run
        return self.children.named("ConfigMap", names.plan_name(run.name, run.uid))

    @cached_property
    def applied(self) -> Applied:
        """Return the platform's defaults that apply to this run.

        They are read from the plan once it exists, else from the client's Job or from the Workload
        of the run's quota, so that another operator changes nothing. What has none was made by an
        older release, which had no defaults.
        """
        run = self.facts.run
        context = self.facts.context
        current = applied_to(run.labels, context.run_defaults)
        queue = self.status.queue
        made = (
            self.plan
            or self.children.named(
                "Job", names.child_name(run.name, run.uid, names.ROLE_CLIENT)
            )
            or (
                self.children.named(
                    WORKLOAD, names.queued_name(run.name, run.uid, queue.attempt)
                )
                if queue is not None
                else None
            )
        )
        if made is None:
            return current
        if (found := made.defaults) is None:
            return NOTHING_APPLIED
        if found.text is None:
            return current
        written = read_applied(
            found.text,
            found.labels,
            found.mac,
            key=context.channel_key,
            run_uid=run.uid,
        )
        return written or current

    @cached_property
    def owner(self) -> Owner:
        """Return the run as its objects name it.

        The label of a queue that the run waits in is not copied onto them: Kueue would have each of
        them wait there, too.
        """
        copied = self.applied.labels
        if self.status.queue is not None:
            copied = tuple(
                label for label in copied if label[0] != names.LABEL_QUEUE
            )
        return replace(super().owner, labels=copied)

    @property
    def queue_label(self) -> str | None:
        """Return the queue of Kueue that the run's label names; None: it names none."""
        return dict(self.facts.run.labels).get(names.LABEL_QUEUE) or None

    @property
    def placements(self) -> list[Placement]:
        """Return what the run's pods get from its queue; nothing without a queue."""
        queue = self.status.queue
        return [] if queue is None else queue.placements

    @property
    def waits_in_queue(self) -> bool:
        """Return whether the run has no quota yet from the queue that it waits in."""
        queue = self.status.queue
        return queue is not None and queue.admitted_time is None

    @cached_property
    def effective(self) -> BenchmarkRunSpec:
        """Return the spec with the platform's defaults, from which children are made."""
        return with_defaults(self.spec, self.applied)

    @cached_property
    def token(self) -> str:
        """Return the token that the client is shown, derived from this operator's key."""
        return token_of(self.facts.context.channel_key, self.owner.uid)

    @property
    def plan_digest(self) -> str | None:
        """Return the digest of the plan that the client was given, as noted on its Job.

        If the Job has none, return the digest on the plan's ConfigMap, or None.
        """
        job = self.child("Job", names.ROLE_CLIENT)
        noted = (each.plan_digest for each in (job, self.plan) if each is not None)
        return next(filter(None, noted), None)

    @property
    def ending(self) -> Ending | None:
        """Return why the run ends, if an earlier reconcile found out.

        It is read from memory, else from the status.
        """
        kept = self.status.ending
        return self.collected.ending or (
            Ending(kept.reason, kept.message) if kept is not None else None
        )

    @property
    def blocked(self) -> Blocked | None:
        """Return what kept the run waiting at the last reconcile, and since when.

        It is read from memory, else from the status.
        """
        return self.collected.blocked or self.status.blocked

    @property
    def log_tails(self) -> list[str | None]:
        """Return the end of the failed server's log, one entry a query; None for a failed query.

        Empty: the log was not queried.
        """
        return [
            answer.value
            for query, answer in self.collected.answers.items()
            if isinstance(query, LogTail)
        ]

    @property
    def log_tail(self) -> str | None:
        """Return the end of the failed server's log.

        None if it could not be read, or was not queried.
        """
        return next(filter(None, self.log_tails), None)

    @Lasting
    def stored(self) -> frozenset[int]:
        """Return the sequences of the records whose ConfigMap exists."""
        stages = (
            c.sequence for c in self.children.objects if c.role == names.ROLE_STAGE
        )
        return frozenset(sequence for sequence in stages if sequence is not None)

    @Lasting
    def known(self) -> frozenset[int]:
        """Return the sequences of the records that are stored or were received."""
        return self.stored | self.collected.sequences

    @property
    def all_known(self) -> bool:
        """Return whether every record was received, so that the server is no longer needed."""
        return self.total_stages is not None and self.known.issuperset(
            range(self.total_stages)
        )

    @property
    def all_measured(self) -> bool:
        """Return whether every record was received; only the profile's may be missing.

        Nothing that was measured depends on the profile.
        """
        listed = len(self.planned) - (self.spec.measurement.profile is not None)
        is_listed = not searched(self.spec) and not self.repeated
        return self.all_known or (
            is_listed and self.known.issuperset(range(listed))
        )

    def stored_prefix(self, also: Set[int] = frozenset()) -> int:
        """Return n where records 0 .. n-1 are stored without a gap.

        `also`: sequences that are about to be stored.
        """
        return next(
            (
                n
                for n in range(self.most_stages)
                if n not in self.stored and n not in also
            ),
            self.most_stages,
        )

    @Lasting
    def client_pod(self) -> Pod | None:
        """Return the client's pod that is polled; it has the records of all client pods."""
        return next(
            (pod for pod in reversed(self.client_pods) if pod.rank == 0), None
        )

    @property
    def client_runs(self) -> bool:
        """Return whether the client's process can be polled."""
        pod = self.client_pod
        return (
            pod is not None
            and pod.phase == "Running"
            and pod.ip is not None
            and not pod.deleting
        )

    @property
    def client_heard(self) -> bool:
        """Return whether the client has answered this operator since the operator started."""
        return self.collected.client.progress is not None

    @property
    def client_ready(self) -> bool:
        """Return whether all client pods have found plan, tokenizer and data.

        Pods that are being deleted do not count. Once the server was healthy, the client must have
        been ready.
        """
        ready = {
            pod.rank for pod in self.client_pods if pod.ready and not pod.deleting
        }
        return self.status.server_ready_time is not None or ready.issuperset(
            range(division_of(self.effective).pods)
        )

    @property
    def model_is_there(self) -> bool:
        """Return whether a server would find its model.

        It does if the client has put the whole model on the claim, or if the spec has no
        such claim.
        """
        files = self.status.model
        return cache_of(self.effective.model) is None or (
            files is not None
            and files.state == "Complete"
            and files.commit is not None
        )

    @property
    def served_spec(self) -> BenchmarkRunSpec:
        """Return the spec, with the commit of the model if the client has put one on the claim."""
        files = self.status.model
        if files is None or not self.model_is_there:
            return self.spec
        return at_commit(self.spec, files.commit)

    @cached_property
    def server_pods(self) -> tuple[Pod, ...]:
        """Return the pods of every serving role, within a role the oldest first."""
        return tuple(
            pod
            for role in self.server_roles
            for pod in self.children.role_pods(role)
        )

    @property
    def server_roles(self) -> tuple[str, ...]:
        return tuple(role_replicas(self.spec))

    def serving_as(self, role: str) -> tuple[Pod, ...]:
        """Return the newest pods of the role, as many as the role should have.

        Older ones are being deleted, or were replaced.
        """
        return self.children.role_pods(role)[
            -role_replicas(self.spec)[role] * nodes(self.spec) :
        ]

    @cached_property
    def serving(self) -> tuple[Pod, ...]:
        """Return the newest pods of all serving roles, as `serving_as` does."""
        return tuple(
            pod for role in self.server_roles for pod in self.serving_as(role)
        )

    @property
    def server_exists(self) -> bool:
        """Return whether a server, or a part of one, was created and not yet released."""
        return any(self.workload(role) is not None for role in self.server_roles)

    @property
    def is_released(self) -> bool:
        """Return whether the servers' deletion was requested before this reconcile."""
        return (
            self.status.server_released_time is not None
            or self.collected.released_at is not None
        )

    @property
    def released_time(self) -> str | None:
        """Return when the servers' deletion was requested; now if servers still exist.

        None if there are no servers, and no deletion was requested.
        """
        requested = self.collected.released_at or (
            self.now if self.server_exists else None
        )
        return self.status.server_released_time or (
            timestamp(requested) if requested is not None else None
        )

    @property
    def measuring_started(self) -> bool:
        """Return whether a measured request was sent."""
        progress = self.collected.client.progress
        heard = progress is not None and progress.first_request_unix_us is not None
        return heard or bool(self.known) or self.status.start_time is not None

    @property
    def was_ready(self) -> bool:
        """Return whether the last reconcile already knew that the server was healthy.

        If so, the pods in the status are the pods of that server.
        """
        return self.facts.run.status.get("serverReadyTime") is not None

    @property
    def begun(self) -> bool:
        """Return whether the client has found the server ready, or has begun to measure.

        From then on nothing more is created: a new object would make the measurement invalid.
        """
        return self.status.server_ready_time is not None or self.measuring_started
