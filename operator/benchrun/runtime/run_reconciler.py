"""Reconciles a run: observe, decide, delete servers, then everything else.

The servers of a run that ends are deleted before anything else is tried. Errors are raised at the
end, so that the reconcile is retried: everything here can be repeated.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any, ClassVar

from benchrun import names
from benchrun.api import Reason, has_only_progress, status_changes
from benchrun.child_kinds import EXTENSION_KINDS, SERVER_KINDS, WORKLOAD
from benchrun.decide import (
    RESULT_ROLES,
    Collected,
    Context,
    Decision,
    Event,
    Facts,
    Judging,
    Ref,
    RefusedObject,
    rests,
    unneeded_servers,
)
from benchrun.decide.refusals import diagnose_refusal
from benchrun.effects import (
    About,
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    LookUps,
    NotFound,
    NotServed,
    Occupied,
)
from benchrun.observe import (
    Child,
    Children,
    Key,
    Run,
    child_of,
    gpu_seconds,
    is_finished,
    run_key,
    untrusted_json as raw,
    view_of,
    waits_since,
)
from benchrun.runtime.log_lines import decided_in_words
from benchrun.runtime.memory import Measured, Memories, RunMemory
from benchrun.runtime.reconciler import REFUSED_RETRY_SECONDS, Reconciler
from benchrun.runtime.sessions import Sessions

logger = logging.getLogger(__name__)

Decide = Callable[[Facts], Decision]
Json = dict[str, Any]
# status writes per second that contain nothing urgent, over all runs
RUNS_A_SECOND = 20
RELEASE_SECONDS = 15.0
"""Seconds between two checks for servers to release, for a run whose namespace can't be read
completely."""
# how long a status change waits, at least, for others that follow it closely; ends do not wait
SETTLE_SECONDS = 1.0
LONGEST_CROWD_SECONDS = 10.0
"""Most seconds that it waits while many runs have words to write: objects come before words."""
# What the operator knows may be older than what ended the run.
_FOR_WHAT_IS_MISSING = (
    Reason.SERVER_GONE,
    Reason.CLIENT_GONE,
    Reason.CLIENT_FAILED,
    Reason.RECORDS_MISSING,
)
EVIDENCE_SECONDS = 30.0
"""Seconds of failed attempts to read evidence, after which the run is decided without it."""
_EVIDENCE = (
    *((kind, None, False) for kind in SERVER_KINDS),
    ("Job", names.ROLE_CLIENT, False),
    ("ConfigMap", names.ROLE_STAGE, True),
    ("Pod", names.ROLE_CLIENT, False),
)
"""Kind, role (None: any), and whether the object's metadata is enough."""
_BEGUN = ("serverReadyTime", "startTime", "serverReleasedTime")
# A measurement is usually judged (one run at a time) and written with its results within this time;
# where that takes longer, the status says that it is measured.
JUDGED_WITHIN_SECONDS = 60.0
# seconds until two contradicting clocks are compared again
SECOND_LOOK_SECONDS = 300.0
# most seconds that the release of a failed server waits for its log
LAST_WORDS_SECONDS = 1.0


def _node_time() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


@dataclass(kw_only=True, eq=False)
class RunReconciler(Reconciler[Run, RunMemory]):
    """Decides on runs, and carries the decisions out."""

    what = "run"
    let_go_in_words = "deleted its servers"
    cleared_at_the_end: ClassVar[Mapping[str, Any]] = {
        "verdict": "Unknown",
        "live": None,
        "ending": None,
        "blocked": None,
        "judgeAttempts": None,
    }

    sessions: Sessions
    lookups: LookUps
    context: Context
    decide: Decide
    measured: Measured = field(default_factory=Measured)
    second_clock: Callable[[], datetime] = _node_time
    """A second clock: a run is deleted only if this clock agrees with `now`."""

    # the first reconcile of this process
    _counts_from: datetime | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memories = Memories(RunMemory)
        quotas = (WORKLOAD,) if self.context.kueue else ()
        self._holding = (*SERVER_KINDS, "Job", *quotas)

    def known(self, key: Key) -> Run | None:
        """Return the run from the index; None if the index does not have it."""
        return self.indexes.run(key)

    async def release(self, key: Key) -> float | None:
        """Delete servers that no longer need their GPU, and do nothing else.

        This is for runs in a namespace that can't be read completely. Return the seconds until the
        next check, or None.
        """
        return await self.guard(key, lambda: self._release(key))

    async def _release(self, key: Key) -> float | None:
        if (run := self.known(key)) is None:
            return None
        if not run.deleting and (run := await self.whole(key, run)) is None:
            return 0.0
        children = self.indexes.children(key)
        facts = Facts(run, children, Collected(), self.now(), self.context)
        failed = await self.delete(unneeded_servers(facts))
        if failed:
            raise failed[0]
        return RELEASE_SECONDS if self.indexes.holds_server(key) else None

    def rests(self, key: Key) -> bool:
        """Return whether a reconcile would do nothing, since the run has ended and left nothing.

        A starting operator, and every resync, asks this of ten thousand runs, so an error in one
        must not stop the others. It counts as False: the reconcile of that run raises it again, and
        handles it.
        """
        try:
            return self._is_at_rest(key)
        except Exception:
            logger.exception("%s: it is not known whether it rests", key)
            return False

    def _is_at_rest(self, key: Key) -> bool:
        if key in self.memories or not self.indexes.may_rest(key):
            return False
        if not self.indexes.has_objects(key):
            return True
        run = self.known(key)
        if run is None or (run.left_out and not self.indexes.is_in_short(key)):
            return False
        of_others = self._held(
            key, lambda child: _is_of_another(key, child, run.uid)
        )
        return not any(of_others) and self._rests(key, run)

    def _rests(self, key: Key, run: Run) -> bool:
        children = self.indexes.children(key)
        return rests(Facts(run, children, Collected(), self.now(), self.context))

    async def look_at(self, key: Key, declared: Run) -> float | None:
        """Reconcile an existing run."""
        if (run := await self.whole(key, declared)) is None:
            return 0.0
        if self._rests(key, run):
            self.forget(key)
            return None
        children = self.indexes.children(key)
        is_known = self.memories.holds(key, run.uid)
        memory = self.memories.of(key, run.uid)
        if not is_known:
            memory.collected.is_adopted = _was_begun(run, children)
        facts, decision = self._decided(key, run, children, memory)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: %s", key, decided_in_words(run.status, decision))
        if _ends_for_want(decision, memory) or _makes_client_anew(
            decision, children
        ):
            await self._find_evidence(key, run, memory)
            facts, decision = self._decided(
                key, run, self.indexes.children(key), memory
            )
        return await self._carry_out(key, facts, decision, memory)

    def _decided(
        self, key: Key, run: Run, children: Children, memory: RunMemory
    ) -> tuple[Facts, Decision]:
        memory.let_go_of_stored(children)
        self.measured.note(key, memory.collected)
        context = replace(
            self.context, live_interval_seconds=self._live_interval_seconds(key)
        )
        facts = Facts(run, children, memory.collected, self.now(), context)
        with self.telemetry.a_decision():
            return facts, self.decide(facts)

    async def _find_evidence(self, key: Key, run: Run, memory: RunMemory) -> None:
        """Read from the cluster whether objects that the run lacks exist after all.

        Raises ClusterError while they can't be read. After EVIDENCE_SECONDS it returns instead, and
        the run is decided without them: its server may be holding a GPU.
        """
        failed = await self._look_for_evidence(key, run)
        if failed is None:
            memory.unlooked_since = None
            return
        now = asyncio.get_running_loop().time()
        if memory.unlooked_since is None:
            memory.unlooked_since = now
        if now - memory.unlooked_since < EVIDENCE_SECONDS:
            raise failed

    async def _look_for_evidence(self, key: Key, run: Run) -> ClusterError | None:
        """Read objects of the run that no watch may have reported; return the error, if any.

        These are the run's workloads, its stored records, and the client's pods, which may have
        ended. Another operator may have made a workload whose watch is behind that of the run. No
        watch reports the records: another operator may have stored all and released the server. A
        Job's failure may be heard before that of its pods.
        """
        for kind, role, metadata_only in _EVIDENCE:
            selector = f"{names.LABEL_RUN_UID}={run.uid}"
            if role is not None:
                selector += f",{names.LABEL_ROLE}={role}"
            try:
                async for body in self.cluster.list(
                    kind,
                    namespace=run.namespace,
                    selector=selector,
                    metadata_only=metadata_only,
                ):
                    self.indexes.learnt(kind, body)
            except ClusterError as error:
                # Of a kind that the cluster lacks, or that the operator may not read, it has made
                # nothing.
                is_refused = isinstance(error, NotFound | Forbidden)
                if kind in EXTENSION_KINDS and is_refused:
                    continue
                logger.info("%s: its %ss were not looked for: %s", key, kind, error)
                return error
        return None

    async def _carry_out(
        self, key: Key, facts: Facts, decision: Decision, memory: RunMemory
    ) -> float | None:
        run = facts.run
        collected = memory.collected
        self._account(facts, decision, memory)
        collected.ending = decision.ending or collected.ending
        collected.blocked = decision.status.blocked
        about = About(
            run,
            facts.children,
            tuple(collected.arrivals.values()),
            tuple(collected.samples.unstored),
        )
        if decision.last_words is not None:
            await self.lookups.within(
                LAST_WORDS_SECONDS, about, decision.last_words, collected.answers
            )
        # Some queries read what is gone with the server, so they begin before it is deleted, but
        # none is waited for.
        if any(isinstance(query, Judging) for query in decision.lookups):
            collected.judged_bytes = max(
                collected.judged_bytes, collected.backlog_bytes
            )
        self.lookups.ask(key, about, decision.lookups, collected.answers)
        lets_go = collected.released_at is None and _deletes_servers(decision)
        if lets_go:
            collected.released_at = facts.now
        failed = await self.delete(decision.delete)
        if decision.last_words is not None and not failed:
            return 0.0  # the log may show better why the run ends: decide again
        if lets_go and not failed and _can_wait(run, decision):
            return 0.0  # servers of other runs are released before the rest of this reconcile
        self.sessions.follow(
            key,
            run,
            memory,
            scrape=decision.scrape,
            pull=decision.pull,
            queued=decision.queued,
        )
        refused = collected.refused_object
        unapplied = await self._apply(key, run, decision, memory)
        if isinstance(unapplied, Occupied):
            return 0.0
        if (
            not isinstance(unapplied, ClusterError)
            and collected.refused_object != refused
        ):
            return 0.0  # decide again: nothing unstored may be acknowledged or called finished
        through = decision.acknowledge or 0
        is_news = unapplied is None and through > memory.acknowledged
        if is_news and await self.sessions.acknowledge(key, through):
            memory.acknowledged = through
        due = None
        if unapplied is None or not decision.forget:
            due = await self._write_status(run, decision, memory)
            if due is None:
                collected.is_judging_counted |= decision.counts_judging
                await self.post(run, decision.events)
        if failed:
            raise failed[0]
        if isinstance(unapplied, ClusterError):
            raise unapplied
        if unapplied is not None:
            return _earliest(
                REFUSED_RETRY_SECONDS, decision.requeue_after_seconds, due
            )
        self.telemetry.live(key, decision.status, ended=decision.forget)
        if decision.forget:
            self.forget(key)
        if decision.delete_run:
            due = _earliest(due, await self._delete_run(facts))
        if decision.counts_judging:
            return 0.0  # it is judged now
        return _earliest(decision.requeue_after_seconds, due)

    def _account(self, facts: Facts, decision: Decision, memory: RunMemory) -> None:
        """Count the GPU seconds of the run since its last reconcile, and note whether it waits.

        Nothing is counted twice: what lies before the first reconcile of this process was counted
        by the one before, and a run whose end is written was counted until its end.
        """
        self._counts_from = self._counts_from or facts.now
        memory.waits_since = waits_since(decision.status)
        if is_finished(facts.run.status):
            return
        since = memory.gpus_counted_to or self._counts_from
        used = gpu_seconds(decision.status, since=since, until=facts.now)
        self.telemetry.gpus_used(facts.run.namespace, used)
        if used:
            memory.gpus_counted_to = max(since, facts.now)

    async def _delete_run(self, facts: Facts) -> float | None:
        """Delete a finished run with its results, if its TTL has passed by both clocks.

        Otherwise return in how many seconds to check again.
        """
        again = self.decide(replace(facts, now=self.second_clock()))
        if not again.delete_run:
            return _earliest(SECOND_LOOK_SECONDS, again.requeue_after_seconds)
        run = facts.run
        await self.cluster.delete(Ref(names.KIND, run.namespace, run.name, run.uid))
        return None

    def _live_interval_seconds(self, key: Key) -> float:
        return max(self.context.live_interval_seconds, self._turn_seconds(key))

    def _turn_seconds(self, key: Key) -> float:
        """Return the seconds in which the status of every run can be written once.

        A namespace with fewer runs than others counts as if all namespaces had as few.
        """
        return self._shared_seconds(key, len(self.sessions))

    def _crowd_seconds(self, key: Key) -> float:
        """Return the seconds in which all statuses that wait can be written once, bounded.

        Where a thousand runs begin at once, the API server makes their objects meanwhile.
        """
        waiting = sum(
            memory.outdated_since is not None for memory in self.memories.values()
        )
        return min(LONGEST_CROWD_SECONDS, self._shared_seconds(key, waiting))

    def _shared_seconds(self, key: Key, runs: int) -> float:
        of_namespaces = self.memories.namespaces
        if len(of_namespaces) > 1:
            runs = min(runs, of_namespaces[key.namespace] * len(of_namespaces))
        return runs / RUNS_A_SECOND

    async def _apply(
        self, key: Key, run: Run, decision: Decision, memory: RunMemory
    ) -> ClusterError | RefusedObject | None:
        """Create the objects of a decision; return why one could not be created, None if all exist.

        The cause is an error that may pass in a moment, or a refusal. Both are recorded for the
        status.
        """
        collected = memory.collected
        refused = None
        for manifest in decision.apply:
            try:
                await self._apply_one(key, run, manifest, memory)
            except Occupied as error:
                if collected.conflict is None:
                    collected.conflict = str(error)
                    return error
                # The run ends for another conflict already; this one stops nothing else.
            except ClusterError as error:
                found = _refused(manifest, error)
                refused = refused or (found, error)
                if found.is_transient or found.role not in RESULT_ROLES:
                    # Stop at a refused object: the client comes before the server. Each record
                    # may be refused alone: go on. Stop where the API server does not answer.
                    break
        if not decision.apply:
            return None
        before = collected.refused_object
        collected.refused_object = refused[0] if refused is not None else None
        if refused is None:
            return None
        collected.refused_at = self.now()
        if refused[0].is_transient:
            return refused[1]
        if refused[0] != before:
            why = diagnose_refusal(refused[0])
            await self.post(run, (Event(why.reason, why.message, warning=True),))
        return refused[0]

    async def _apply_one(
        self, key: Key, run: Run, manifest: dict[str, Any], memory: RunMemory
    ) -> None:
        kind = manifest["kind"]
        wanted = child_of(kind, manifest)
        known = self.indexes.children(key).named(kind, wanted.name)
        is_ours = known is not None and known.owner_uid == run.uid
        if is_ours and known is not None and known.envelope == wanted.envelope:
            return
        body = await self.cluster.apply(manifest)
        self.indexes.learnt(kind, body)
        stored = child_of(kind, body)
        if stored.envelope != wanted.envelope:
            raise Occupied(
                f"{kind} {wanted.name} exists with another record", found=body
            )
        made = (wanted.plan_digest, wanted.defaults)
        if (
            stored.role == names.ROLE_PLAN
            and (stored.plan_digest, stored.defaults) != made
        ):
            # All else in this decision is for its own plan.
            raise Conflict(
                f"{kind} {wanted.name} has the plan of another operator", code=409
            )
        # The stored timeline may end earlier, where an earlier attempt's answer was lost.
        memory.collected.samples.stored(
            through=min(_through(body), _through(manifest))
        )

    async def _write_status(
        self, run: Run, decision: Decision, memory: RunMemory
    ) -> float | None:
        """Write the changes of the status if it is time; otherwise return the seconds until then.

        Changes that follow each other closely are written together.
        """
        changes = status_changes(run.status, decision.status)
        is_urgent = _is_urgent(run, decision, changes)
        # What servers are is written with what they do.
        if not changes or (changes.keys() == {"servers"} and not is_urgent):
            memory.outdated_since = None
            return None
        now = asyncio.get_running_loop().time()
        if memory.outdated_since is None:
            memory.outdated_since = now
        due = memory.outdated_since + self._may_wait_seconds(run, decision, changes)
        if not is_urgent and due > now:
            return due - now
        await self.change_status(run, changes)
        memory.outdated_since = None
        return None

    def _may_wait_seconds(
        self, run: Run, decision: Decision, changes: Json
    ) -> float:
        """Return how long changes that are not urgent wait for further ones, in seconds."""
        key = run_key(run.namespace, run.name)
        if (
            decision.status.phase == "Collecting"
            and decision.status.blocked is None
        ):
            return max(JUDGED_WITHIN_SECONDS, self._turn_seconds(key))
        if has_only_progress(run.status, changes):
            return self._live_interval_seconds(key)
        if not _has_words(run):
            return max(SETTLE_SECONDS, self._crowd_seconds(key))
        return max(
            SETTLE_SECONDS, self._turn_seconds(key), self._crowd_seconds(key)
        )

    def forget(self, key: Key) -> None:
        """Stop all tasks and queries of the run, and drop its in-memory state."""
        self.sessions.stop(key)
        self.lookups.stop(key)
        self.measured.let_go(key)
        self.telemetry.forget(key)
        super().forget(key)

    async def let_go(self, declared: Run) -> list[ClusterError]:
        """Request the deletion of the run's servers, then of its client's Job."""
        key = run_key(declared.namespace, declared.name)
        return await self._let_go(
            key, lambda child: child.owner_uid == declared.uid
        )

    async def clear(self, key: Key, declared: Run | None) -> list[ClusterError]:
        """Request the deletion of the servers and Jobs of earlier runs of this name.

        If an earlier run was deleted with `--cascade=orphan`, the garbage collector does not delete
        them.

        The API server is asked which run of this name exists before anything is deleted. Each kind
        has its own watch, so the objects of a run that another operator has just created may be
        seen before the run itself.
        """
        alive = None if declared is None else declared.uid
        if not any(
            self._held(key, lambda child: _is_of_another(key, child, alive))
        ):
            return []
        try:
            body = await self.cluster.get(
                key.kind, namespace=key.namespace, name=key.name
            )
        except NotFound:
            alive = None
        except ClusterError as error:
            return [error]
        else:
            self.indexes.learnt(key.kind, body)
            alive = view_of(key.kind, body).uid
        return await self._let_go(
            key, lambda child: _is_of_another(key, child, alive)
        )

    async def _let_go(
        self, key: Key, is_meant: Callable[[Child], bool]
    ) -> list[ClusterError]:
        held = self._held(key, is_meant)
        servers_first = sorted(held, key=lambda c: self._holding.index(c.kind))
        failed = await self.delete(
            Ref(c.kind, key.namespace, c.name, c.uid) for c in servers_first
        )
        for error in failed:
            logger.warning(
                "%s: a server or Job could not be deleted yet: %s", key, error
            )
        return failed

    def _held(self, key: Key, is_meant: Callable[[Child], bool]) -> Iterator[Child]:
        """Yield the servers, Jobs and Workloads under a run's name that `is_meant` accepts.

        Those that are being deleted are left out.
        """
        for child in self.indexes.children(key).objects:
            is_held = child.kind in self._holding and not child.deleting
            if is_held and is_meant(child):
                yield child


def _is_of_another(key: Key, child: Child, alive: str | None) -> bool:
    """Return whether another run of this name, not the one that exists, has made the child.

    `alive` is the uid of the run that exists; None if there is none.
    """
    return child.owner_uid not in (None, alive) and _has_a_name_of(key, child)


def _has_a_name_of(key: Key, child: Child) -> bool:
    """Return whether benchrun gives this name to a child of an owner that has the key's name."""
    uid = child.owner_uid or ""
    given = (
        names.child_name(key.name, uid, child.role),
        names.group_name(key.name, uid),
    )
    queued = names.child_name(key.name, uid, names.ROLE_QUEUE)
    return child.name in given or child.name.startswith(f"{queued}-")


def _deletes_servers(decision: Decision) -> bool:
    return any(ref.kind in SERVER_KINDS for ref in decision.delete)


def _can_wait(run: Run, decision: Decision) -> bool:
    """Return whether the rest of the reconcile can be left to a later one.

    It can't if the run ends early, or if the status of its servers changes: a later reconcile could
    not find out why, or what the deleted pods were.
    """
    return decision.ending is None and "servers" not in status_changes(
        run.status, decision.status
    )


def _is_urgent(run: Run, decision: Decision, changes: Json) -> bool:
    """Return whether the changes must be written at once.

    They must if the run ends, if its spec was edited, before the run is judged, and if servers that
    are described are deleted now: that could not be found out later. A queue is noted before the
    run's label can name another one, and a quota before objects are made with it. The first words
    come with the server at the latest, since its deadlines are those that they accept.
    """
    ends = decision.forget or decision.ending is not None
    # the first words soon change
    is_edited = _has_words(run) and "observedGeneration" in changes
    are_going = bool(decision.delete) and "servers" in changes
    is_first_server = not _has_words(run) and any(
        manifest["kind"] in SERVER_KINDS for manifest in decision.apply
    )
    return (
        ends
        or is_edited
        or are_going
        or is_first_server
        or _has_joined_or_got_a_quota(run, decision)
        or decision.counts_judging
    )


def _has_joined_or_got_a_quota(run: Run, decision: Decision) -> bool:
    if (queue := decision.status.queue) is None:
        return False
    noted = raw.mapping(run.status.get("queue"))
    return not noted or (
        queue.admitted_time is not None and not noted.get("admittedTime")
    )


def _has_words(run: Run) -> bool:
    """Return whether a status was written: the CRD's default, -1, stands for no generation."""
    return raw.number(run.status.get("observedGeneration"), default=-1) >= 0


def _ends_for_want(decision: Decision, memory: RunMemory) -> bool:
    """Return whether the decision newly ends the run because something is missing or failed.

    The cluster may show that nothing is missing, or why the client failed.
    """
    is_new = decision.ending is not None and memory.collected.ending is None
    return (
        is_new
        and decision.ending is not None
        and decision.ending.reason in _FOR_WHAT_IS_MISSING
    )


def _makes_client_anew(decision: Decision, children: Children) -> bool:
    """Return whether the decision creates a client although its plan exists.

    An earlier client may have measured already: another operator may have released it without being
    able to write the status.
    """
    has_plan = any(
        (child.kind, child.role) == ("ConfigMap", names.ROLE_PLAN)
        for child in children.objects
    )
    return has_plan and any(
        manifest["kind"] == "Job" for manifest in decision.apply
    )


def _was_begun(run: Run, children: Children) -> bool:
    """Return whether the measurement has begun, judging by the cluster."""
    is_stored = any(
        child.role == names.ROLE_STAGE and child.owner_uid == run.uid
        for child in children.objects
    )
    return is_stored or not run.status.keys().isdisjoint(_BEGUN)


def _earliest(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def _through(body: dict[str, Any]) -> float:
    """Return the end of the timeline in an object, in Unix seconds; -inf without a timeline."""
    annotations = raw.mapping(body["metadata"].get("annotations"))
    try:
        through = float(raw.text(annotations.get(names.ANNOTATION_THROUGH)))
    except ValueError:
        return -inf
    return through if isfinite(through) else -inf


def _refused(manifest: dict[str, Any], error: ClusterError) -> RefusedObject:
    meta = manifest["metadata"]
    return RefusedObject(
        manifest["kind"],
        meta["name"],
        str((meta.get("labels") or {}).get(names.LABEL_ROLE)),
        str(error),
        curable=not isinstance(error, Invalid),
        is_kind_missing=isinstance(error, NotServed),
        is_transient=not isinstance(error, Forbidden | Invalid | NotServed),
    )
