"""One pass over one run: look, decide, delete servers, then everything else.

The servers of a run that ends are deleted before anything else is tried. What fails is raised at
the pass's end, so that it is retried: everything here can be repeated."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any, ClassVar

from benchrun import names
from benchrun.api import Reason, has_only_progress, status_changes
from benchrun.decide import (
    RESULT_ROLES,
    SERVER_KINDS,
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
    NotServed,
    Occupied,
)
from benchrun.observe import Child, Children, Key, Run, child_of, run_key, untrusted_json as raw
from benchrun.runtime.log_lines import decided_in_words
from benchrun.runtime.memory import Measured, Memories, RunMemory
from benchrun.runtime.reconciler import REFUSED_RETRY_SECONDS, Reconciler
from benchrun.runtime.sessions import Sessions

logger = logging.getLogger(__name__)

Decide = Callable[[Facts], Decision]
Json = dict[str, Any]
RUNS_A_SECOND = (
    20  # statuses without anything urgent are written about this often a second, over all runs
)
RELEASE_SECONDS = 15.0  # how often a server is looked at of whose run not everything is known
# how long a change of the status waits for others that follow it closely, at least; ends do not
SETTLE_SECONDS = 1.0
# What the operator was told last may be older than what ended the run.
_FOR_WHAT_IS_MISSING = (
    Reason.SERVER_GONE,
    Reason.CLIENT_GONE,
    Reason.CLIENT_FAILED,
    Reason.RECORDS_MISSING,
)
EVIDENCE_SECONDS = 30.0
"""Evidence that can't be read for so long is done without."""
_EVIDENCE = (("ConfigMap", names.ROLE_STAGE, True), ("Pod", names.ROLE_CLIENT, False))
"""Kind, role, and whether metadata says it all."""
_BEGUN = ("serverReadyTime", "startTime", "serverReleasedTime")
# What is measured is soon judged (one run at a time) and written with its results; where that takes
# longer, the status says that it is measured.
JUDGED_WITHIN_SECONDS = 60.0
SECOND_LOOK_SECONDS = 300.0  # how soon two clocks are compared again that contradict each other
LAST_WORDS_SECONDS = 1.0  # a failed server's release waits at most so long for its log


def _node_time() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


@dataclass(kw_only=True, eq=False)
class RunReconciler(Reconciler[Run, RunMemory]):
    """Makes passes over runs."""

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
    """What can't be undone is done only where this one agrees with `now`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memories = Memories(RunMemory)

    def known(self, key: Key) -> Run | None:
        """The run, as the index has it."""
        return self.indexes.run(key)

    async def release(self, key: Key) -> float | None:
        """Delete what holds a GPU for nothing, and do nothing else: not everything is known of the
        run's namespace."""
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

    async def look_at(self, key: Key, declared: Run) -> float | None:
        """One pass over a run that is there."""
        if (run := await self.whole(key, declared)) is None:
            return 0.0
        children = self.indexes.children(key)
        if rests(Facts(run, children, Collected(), self.now(), self.context)):
            self.forget(key)
            return None
        is_known = self.memories.holds(key, run.uid)
        memory = self.memories.of(key, run.uid)
        if not is_known:
            memory.collected.is_adopted = _was_begun(run, children)
        facts, decision = self._decided(key, run, children, memory)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: %s", key, decided_in_words(run.status, decision))
        if _ends_for_want(decision, memory) or _makes_client_anew(decision, children):
            await self._find_evidence(key, run, memory)
            facts, decision = self._decided(key, run, self.indexes.children(key), memory)
        return await self._carry_out(key, facts, decision, memory)

    def _decided(
        self, key: Key, run: Run, children: Children, memory: RunMemory
    ) -> tuple[Facts, Decision]:
        memory.let_go_of_stored(children)
        self.measured.note(key, memory.collected)
        context = replace(self.context, live_interval_seconds=self._live_interval_seconds(key))
        facts = Facts(run, children, memory.collected, self.now(), context)
        with self.telemetry.a_decision():
            return facts, self.decide(facts)

    async def _find_evidence(self, key: Key, run: Run, memory: RunMemory) -> None:
        """Look for evidence. Raise ClusterError while it can't be read, for so long as it may be
        waited for: the servers are held meanwhile, or gone."""
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
        """Learn which records are stored, which no watch reports: another operator may have stored
        all and released the server. And how the client's pods ended: a Job's failure may be heard
        before."""
        for kind, role, metadata_only in _EVIDENCE:
            selector = f"{names.LABEL_RUN_UID}={run.uid},{names.LABEL_ROLE}={role}"
            try:
                async for body in self.cluster.list(
                    kind,
                    namespace=run.namespace,
                    selector=selector,
                    metadata_only=metadata_only,
                ):
                    self.indexes.learnt(kind, body)
            except ClusterError as error:
                logger.info("%s: its %ss were not looked for: %s", key, kind, error)
                return error
        return None

    async def _carry_out(
        self, key: Key, facts: Facts, decision: Decision, memory: RunMemory
    ) -> float | None:
        run, collected = facts.run, memory.collected
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
        # Some read what goes with the server, so they begin before it does; nothing of it is waited
        # for.
        if any(isinstance(question, Judging) for question in decision.lookups):
            collected.judged_bytes = max(collected.judged_bytes, collected.backlog_bytes)
        self.lookups.ask(key, about, decision.lookups, collected.answers)
        lets_go = collected.released_at is None and _deletes_servers(decision)
        if lets_go:
            collected.released_at = facts.now
        failed = await self.delete(decision.delete)
        if decision.last_words is not None and not failed:
            return 0.0  # the log may show better why the run ends
        if lets_go and not failed and _can_wait(run, decision):
            return 0.0  # servers of other runs go before the rest of this one is done
        self.sessions.follow(key, run, memory, scrape=decision.scrape, pull=decision.pull)
        refused = collected.refused_object
        unapplied = await self._apply(key, run, decision, memory)
        if isinstance(unapplied, Occupied):
            return 0.0
        if not isinstance(unapplied, ClusterError) and collected.refused_object != refused:
            return 0.0  # nothing is acknowledged or called finished that was not stored
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
            return _earliest(REFUSED_RETRY_SECONDS, decision.requeue_after_seconds, due)
        self.telemetry.live(key, decision.status, ended=decision.forget)
        if decision.forget:
            self.forget(key)
        if decision.delete_run:
            due = _earliest(due, await self._delete_run(facts))
        if decision.counts_judging:
            return 0.0  # it is judged now
        return _earliest(decision.requeue_after_seconds, due)

    async def _delete_run(self, facts: Facts) -> float | None:
        """Delete a finished run with its results, if it is time by either clock; else in how many
        seconds to look again."""
        again = self.decide(replace(facts, now=self.second_clock()))
        if not again.delete_run:
            return _earliest(SECOND_LOOK_SECONDS, again.requeue_after_seconds)
        run = facts.run
        await self.cluster.delete(Ref(names.KIND, run.namespace, run.name, run.uid))
        return None

    def _live_interval_seconds(self, key: Key) -> float:
        return max(self.context.live_interval_seconds, self._turn_seconds(key))

    def _turn_seconds(self, key: Key) -> float:
        """How long it takes until each run's status has been written once; of a namespace with few
        runs, until each of those has, were all namespaces as large."""
        runs, of_namespaces = len(self.sessions), self.memories.namespaces
        if len(of_namespaces) > 1:
            runs = min(runs, of_namespaces[key.namespace] * len(of_namespaces))
        return runs / RUNS_A_SECOND

    async def _apply(
        self, key: Key, run: Run, decision: Decision, memory: RunMemory
    ) -> ClusterError | RefusedObject | None:
        """Why not everything is there now: an error that may be gone in a moment, or a refusal.
        Both are noted for the status."""
        collected, refused = memory.collected, None
        for manifest in decision.apply:
            try:
                await self._apply_one(key, run, manifest, memory)
            except Occupied as error:
                if collected.conflict is None:
                    collected.conflict = str(error)
                    return error
                # The run ends for one already, and what can't be stored keeps it from nothing.
            except ClusterError as error:
                found = _refused(manifest, error)
                refused = refused or (found, error)
                if found.is_transient or found.role not in RESULT_ROLES:
                    # the client before the server; of records each is refused by itself; none where
                    # nothing answers
                    break
        if not decision.apply:
            return None
        before, collected.refused_object = (
            collected.refused_object,
            refused[0] if refused is not None else None,
        )
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
        if is_ours and known is not None and known.record_digest == wanted.record_digest:
            return
        body = await self.cluster.apply(manifest)
        self.indexes.learnt(kind, body)
        stored = child_of(kind, body)
        if stored.record_digest != wanted.record_digest:
            raise Occupied(f"{kind} {wanted.name} holds another record", found=body)
        if stored.role == names.ROLE_PLAN and stored.plan_digest != wanted.plan_digest:
            # What else this pass would make is for the plan that it wanted.
            raise Conflict(f"{kind} {wanted.name} holds another operator's plan", code=409)
        # Less than was wanted, where an earlier attempt's answer was lost.
        memory.collected.samples.stored(through=min(_through(body), _through(manifest)))

    async def _write_status(self, run: Run, decision: Decision, memory: RunMemory) -> float | None:
        """Write what changed, if it is time; else in how many seconds it will be. Changes close to
        each other are one write."""
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

    def _may_wait_seconds(self, run: Run, decision: Decision, changes: Json) -> float:
        """How long changes wait for others that follow them, where none is urgent."""
        key = run_key(run.namespace, run.name)
        if decision.status.phase == "Collecting" and decision.status.blocked is None:
            return max(JUDGED_WITHIN_SECONDS, self._turn_seconds(key))
        if has_only_progress(run.status, changes):
            return self._live_interval_seconds(key)
        return max(SETTLE_SECONDS, self._turn_seconds(key))

    def forget(self, key: Key) -> None:
        """Stop what goes on for it, and drop the rest."""
        self.sessions.stop(key)
        self.lookups.stop(key)
        self.measured.let_go(key)
        self.telemetry.forget(key)
        super().forget(key)

    async def let_go(self, declared: Run) -> list[ClusterError]:
        """Request the deletion of everything that the run holds; its servers first."""
        key = run_key(declared.namespace, declared.name)
        return await self._let_go(key, lambda child: child.owner_uid == declared.uid)

    async def clear(self, key: Key, declared: Run | None) -> list[ClusterError]:
        """The same for runs that had this name and are gone. Where somebody deleted one with
        `--cascade=orphan`, nobody collects what it held."""
        alive = None if declared is None else declared.uid
        return await self._let_go(
            key, lambda child: child.owner_uid not in (None, alive) and _has_a_name_of(key, child)
        )

    async def _let_go(self, key: Key, is_meant: Callable[[Child], bool]) -> list[ClusterError]:
        held = (
            child
            for child in self.indexes.children(key).objects
            if child.kind in (*SERVER_KINDS, "Job") and not child.deleting and is_meant(child)
        )
        servers_first = sorted(held, key=lambda child: child.kind == "Job")
        failed = await self.delete(Ref(c.kind, key.namespace, c.name, c.uid) for c in servers_first)
        for error in failed:
            logger.warning("%s: something it holds is not deleted yet: %s", key, error)
        return failed


def _has_a_name_of(key: Key, child: Child) -> bool:
    """Whether the child's owner would have given it this name, if it had that of the key."""
    uid = child.owner_uid or ""
    given = names.child_name(key.name, uid, child.role), names.group_name(key.name, uid)
    return child.name in given


def _deletes_servers(decision: Decision) -> bool:
    return any(ref.kind in SERVER_KINDS for ref in decision.delete)


def _can_wait(run: Run, decision: Decision) -> bool:
    """Whether what follows the deletion of servers can be found out by whoever comes later: not why
    a run ends early, nor what is known only for as long as their pods are there."""
    return decision.ending is None and "servers" not in status_changes(run.status, decision.status)


def _is_urgent(run: Run, decision: Decision, changes: Json) -> bool:
    """Whether changes are written at once: ends, and what nobody could find out later."""
    ends = decision.forget or decision.ending is not None
    is_edited = bool(run.status) and "observedGeneration" in changes  # the first words soon change
    are_going = bool(decision.delete) and "servers" in changes
    return ends or is_edited or are_going or decision.counts_judging


def _ends_for_want(decision: Decision, memory: RunMemory) -> bool:
    """Whether the run is to end for what is missing, or for what a pod may explain."""
    is_new = decision.ending is not None and memory.collected.ending is None
    return is_new and decision.ending is not None and decision.ending.reason in _FOR_WHAT_IS_MISSING


def _makes_client_anew(decision: Decision, children: Children) -> bool:
    """Whether a client is to be made whose plan is there. It may have measured: another operator
    has let go of it, and could not write the status."""
    has_plan = any(
        (child.kind, child.role) == ("ConfigMap", names.ROLE_PLAN) for child in children.objects
    )
    return has_plan and any(manifest["kind"] == "Job" for manifest in decision.apply)


def _was_begun(run: Run, children: Children) -> bool:
    """Whether its measurement has begun, by what is in the cluster."""
    is_stored = any(
        child.role == names.ROLE_STAGE and child.owner_uid == run.uid for child in children.objects
    )
    return is_stored or not run.status.keys().isdisjoint(_BEGUN)


def _earliest(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def _through(body: dict[str, Any]) -> float:
    """Until when the timeline goes that it holds, in Unix seconds."""
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
