"""Reconciles a sweep: observe, decide, cancel and create runs, write the status once, post events.

Every step can be repeated.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchrun.api import BenchmarkRunStatus, status_changes
from benchrun.api.sweep import SweepTable, essence
from benchrun.decide import Ref
from benchrun.decide.sweep.decide_sweep import cancellations, decide
from benchrun.decide.sweep.sweep_state import (
    NotCreated,
    SweepDecision,
    SweepFacts,
    TableMade,
    TableWanted,
)
from benchrun.effects import (
    ClusterError,
    Forbidden,
    Invalid,
    JudgeChild,
    KubernetesApi,
    NotFound,
    NotJudged,
    Occupied,
    Places,
    stored_document,
)
from benchrun.judge_process.messages import JobPart, SweepJob
from benchrun.names import KIND, ROLE_RUN
from benchrun.observe import (
    Key,
    Means,
    Place,
    Sweep,
    SweptRun,
    is_ruling_on_valid,
    packed,
    refusal_of,
    run_key,
    run_of,
    sweep_of,
    swept_runs,
    unpacked,
    untrusted_json as raw,
)
from benchrun.plan import NO_DEFAULTS, RunDefaults
from benchrun.runtime.memory import Memories, SweepMemory
from benchrun.runtime.reconciler import (
    REFUSED_RETRY_SECONDS,
    RETRY_SECONDS,
    Reconciler,
)

logger = logging.getLogger(__name__)

LEFTOVER_SECONDS = 2.0
"""Seconds between two checks whether a run of an earlier sweep of the same name is gone."""
TABLES = 4  # most tables that are made, or wait for the judge, at a time
TABLE_SECONDS = 1.0  # seconds that a reconcile waits for the table
# rounds of reading figures: a run may vanish in between, and then others may be wanted
READS = 3


@dataclass(kw_only=True, eq=False)
class SweepReconciler(Reconciler[Sweep, SweepMemory]):
    """Decides on sweeps, and carries the decisions out."""

    what = "sweep"
    let_go_in_words = "cancelled its runs"
    cleared_at_the_end: ClassVar[Mapping[str, Any]] = {}

    judge: JudgeChild
    enqueue: Callable[[Key], None]
    run_defaults: RunDefaults = NO_DEFAULTS

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memories = Memories(SweepMemory)
        self._places = Places(TABLES)  # each holds an unpacked spec

    def known(self, key: Key) -> Sweep | None:
        """Return the sweep from the index; None if the index does not have it."""
        return self.indexes.sweep(key)

    async def let_go(self, declared: Sweep) -> list[ClusterError]:
        """Cancel the runs that have not ended, unless the sweep is deleted without its runs.

        Return the errors that may be retried. If the request to cancel a run is invalid, it is not
        retried, and the run ends by itself.
        """
        if declared.deleting and await self._leaves_its_runs(declared):
            return []
        failed = await self._cancel(
            cancellations(declared, self._runs_of(declared).values())
        )
        return [error for error in failed if not isinstance(error, Invalid)]

    async def _leaves_its_runs(self, sweep: Sweep) -> bool:
        """Return whether the sweep's deletion leaves its runs, or the sweep is already gone."""
        try:
            body = await self.cluster.get(
                sweep.kind, namespace=sweep.namespace, name=sweep.name
            )
        except NotFound:
            return True
        return sweep_of(body).uid != sweep.uid or "orphan" in (
            body["metadata"].get("finalizers") or ()
        )

    async def look_at(self, key: Key, declared: Sweep) -> float | None:
        """Reconcile an existing sweep."""
        memory = self.memories.of(key, declared.uid)
        seen = (declared.version, self._runs_of(declared))
        if memory.settled == seen:
            return None
        if (sweep := await self.whole(key, declared)) is None:
            return 0.0
        memory.settled = None
        decision = decide(self._facts(sweep, memory))
        for _ in range(READS):
            for name in decision.read:
                await self._read(sweep, name, memory)
            decision = (
                decide(self._facts(sweep, memory)) if decision.read else decision
            )
        if decision.table is not None:
            # Wait a moment for the table, not for the judge: the sweep is reconciled again when the
            # table is there.
            if memory.making is None:
                making = self._table(
                    key, packed(sweep.spec), decision.table, memory
                )
                memory.making = asyncio.create_task(making, name="table of a sweep")
            await asyncio.wait({memory.making}, timeout=TABLE_SECONDS)
            decision = decide(self._facts(sweep, memory))
        if decision.read:
            return RETRY_SECONDS  # runs come and go faster than they can be read
        if failed := await self._cancel(decision.cancel):
            raise failed[0]
        if await self._create(decision, memory):
            return 0.0  # decide again with what was found out
        if changes := status_changes(sweep.status, decision.status):
            await self.change_status(sweep, changes)
        await self.post(sweep, decision.events)
        if decision.forget:
            self.memories.drop(key)
            return None
        retry = None
        not_created = memory.collected.not_created
        if decision.create and not_created is not None:
            retry = (
                LEFTOVER_SECONDS if not_created.leftover else REFUSED_RETRY_SECONDS
            )
        memory.settled = seen if retry is None and decision.table is None else None
        return retry

    def _facts(self, sweep: Sweep, memory: SweepMemory) -> SweepFacts:
        return SweepFacts(
            sweep,
            self._runs_of(sweep),
            memory.collected,
            self.now(),
            self.run_defaults,
        )

    def _runs_of(self, sweep: Sweep) -> dict[str, SweptRun]:
        return swept_runs(self.indexes.runs_of(sweep))

    async def _read(self, sweep: Sweep, name: str, memory: SweepMemory) -> None:
        """Read a run and its figures from the API server.

        The index has no results of finished runs.
        """
        key = run_key(sweep.namespace, name)
        known = self.indexes.run(key)
        try:
            body = await self.cluster.get(
                KIND, namespace=sweep.namespace, name=name
            )
        except NotFound:
            if known is not None:
                self.indexes.drop(key, known.uid)
            return
        self._learnt(body)
        run = run_of(body)
        if run.sweep_uid != sweep.uid:
            return
        try:
            figures = essence(BenchmarkRunStatus.model_validate(run.status))
        except ValueError:
            # written by another version of the API: the run counts, but can't be compared
            figures = BenchmarkRunStatus()
        memory.collected.measured[run.uid] = figures

    async def _table(
        self, key: Key, spec: bytes, wanted: TableWanted, memory: SweepMemory
    ) -> None:
        table = None
        problem = ""
        try:
            async with self._places.taken(key.namespace):
                job = SweepJob(
                    namespace=key.namespace,
                    spec=unpacked(spec),
                    baseline=wanted.baseline,
                    runs=wanted.runs,
                    missing=dict(wanted.missing),
                )
                table, _ = await self.judge.judge(
                    job,
                    _parts(self.cluster, key.namespace, wanted, memory),
                    SweepTable,
                )
        except NotJudged as error:
            problem = str(error)
        except Exception as error:
            logger.exception("%s: making the sweep's table failed", key)
            problem = type(error).__name__
        if problem:
            logger.warning("%s: the sweep has no table: %s", key, problem)
        memory.collected.table = TableMade(wanted, table, problem)
        memory.making = memory.settled = None
        self.enqueue(key)

    async def _cancel(self, refs: Iterable[Ref]) -> list[ClusterError]:
        """Cancel every run, even if others can't be cancelled, and return the errors."""
        failed: list[ClusterError] = []
        for ref in refs:
            try:
                self._learnt(await self.cluster.cancel_run(ref))
            except ClusterError as error:
                failed.append(error)
        return failed

    async def _create(self, decision: SweepDecision, memory: SweepMemory) -> bool:
        """Create the runs of a decision.

        Return whether creating a run failed for a reason that is not yet known: that needs a new
        decision.
        """
        collected = memory.collected
        before = memory.collected.not_created
        for manifest in decision.create:
            collected.not_created = None
            name = manifest["metadata"]["name"]
            try:
                self._learnt(await self.cluster.apply(manifest))
            except Occupied as error:
                if not _is_leftover(error.found, manifest):
                    collected.conflict = str(error)
                    return True
                message = f"waiting for run {name} of an earlier sweep of this name to be removed"
                collected.not_created = NotCreated(
                    name, message, curable=True, leftover=True
                )
                break
            except ClusterError as error:
                collected.not_created = self._not_created(name, error, before)
                break
        return collected.not_created is not None and collected.not_created != before

    def _not_created(
        self, name: str, error: ClusterError, before: NotCreated | None
    ) -> NotCreated:
        """Describe why the run could not be created, and since when."""
        words = str(error)
        found = refusal_of(words, Place(ROLE_RUN))
        is_answer = isinstance(error, Forbidden | Invalid)
        message = f"run {name} is refused by the API server: {found.words}"
        is_same = before is not None and before.name == name and not before.quota
        since = before.since if before is not None and is_same else None
        return NotCreated(
            name,
            message
            if is_answer
            else f"run {name} could not be created yet: {found.words}",
            curable=not isinstance(error, Invalid) or is_ruling_on_valid(words),
            quota=is_answer and found.means == Means.QUOTA,
            retried=not is_answer or found.means == Means.RETRY,
            since=since or self.now(),
        )

    def _learnt(self, body: dict[str, Any] | None) -> None:
        """Put a run that the API server returned into the index, and enqueue what it changes.

        The watch event of the run will then change nothing.
        """
        key = self.indexes.learnt(KIND, body) if body is not None else None
        if key is not None:
            self.enqueue(key)


async def _parts(
    cluster: KubernetesApi, namespace: str, wanted: TableWanted, memory: SweepMemory
) -> AsyncGenerator[JobPart, None]:
    """Yield each run's status and its result document, if it has one, one at a time."""
    for run in wanted.runs:
        status = memory.collected.measured[run.uid]
        yield JobPart.of(
            "run",
            status.model_dump_json(by_alias=True, exclude_none=True).encode(),
            name=run.uid,
        )
        if status.result_document is None:
            continue
        ref = status.result_document.model_dump(by_alias=True)
        try:
            document = await stored_document(cluster, namespace, run.uid, ref)
        except ClusterError as error:  # Its status is there, with the main figures.
            logger.warning("%s: its result document: %s", run.name, error)
            continue
        if document is not None:
            yield JobPart.of("runDocument", document, name=run.uid)


def _is_leftover(found: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Return whether the existing run belongs to a deleted sweep of the same name.

    Such a run is removed together with that sweep.
    """
    owner = raw.controller(found["metadata"])
    ours = raw.controller(manifest["metadata"])
    same = (owner.get("kind"), owner.get("name")) == (
        ours.get("kind"),
        ours.get("name"),
    )
    return same and owner.get("uid") != ours.get("uid")
