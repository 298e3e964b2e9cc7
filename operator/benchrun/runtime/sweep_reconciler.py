"""One pass over one sweep: look, decide, cancel and create runs, write the status once, post
events. All can be repeated."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchrun.api import BenchmarkRunStatus, status_changes
from benchrun.api.sweep import SweepTable, essence
from benchrun.decide import Ref
from benchrun.decide.refusals import QUOTA
from benchrun.decide.sweep.decide_sweep import decide
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
    NotFound,
    NotJudged,
    Occupied,
    Places,
)
from benchrun.judge_process.messages import Part, SweepJob
from benchrun.names import KIND
from benchrun.observe import (
    Key,
    Sweep,
    packed,
    run_key,
    run_of,
    swept_runs,
    unpacked,
    untrusted_json as raw,
)
from benchrun.observe.last_words import bounded
from benchrun.runtime.memory import Memories, SweepMemory
from benchrun.runtime.reconciler import RETRY_SECONDS, Reconciler

logger = logging.getLogger(__name__)

NOT_CREATED_RETRY_SECONDS = 15.0  # how often a run that was refused is retried, without an event
LEFTOVER_SECONDS = (
    2.0  # how often it is looked whether a run of an earlier sweep of the same name is gone
)
TABLES = 4  # that are made, or wait for the judge, at a time
TABLE_SECONDS = 1.0  # how long a pass waits for its table
# how often in a pass figures are read: a run may vanish in between, and then others may be wanted
READS = 3


@dataclass(kw_only=True, eq=False)
class SweepReconciler(Reconciler):
    judge: JudgeChild
    enqueue: Callable[[Key], None]

    def __post_init__(self) -> None:
        self.memories = Memories(SweepMemory)
        self._places = Places(TABLES)  # each with a spec that is not packed any more

    async def __call__(self, key: Key) -> float | None:
        return await self.guard(key, lambda: self._pass(key))

    async def _pass(self, key: Key) -> float | None:
        if (sweep := self.indexes.sweep(key)) is None or sweep.deleting:
            # The garbage collector removes the runs, with or without us, but not before somebody's
            # finalizer lets the sweep go.
            self.memories.drop(key)
            if sweep is not None:
                with suppress(NotFound):
                    body = await self.cluster.get(
                        sweep.kind, namespace=sweep.namespace, name=sweep.name
                    )
                    is_orphaning = "orphan" in (body["metadata"].get("finalizers") or ())
                    await self._cancel(
                        ()
                        if is_orphaning
                        else decide(self._facts(sweep, SweepMemory(sweep.uid))).cancel
                    )
            return None
        memory = self.memories.of(key, sweep.uid)
        seen = (sweep.version, swept_runs(self.indexes.runs_of(sweep.uid)))
        if memory.settled == seen:
            return None
        if (sweep := await self.whole(key, sweep)) is None:
            return 0.0
        memory.settled = None
        decision = decide(self._facts(sweep, memory))
        for _ in range(READS):
            for name in decision.read:
                await self._read(sweep, name, memory)
            decision = decide(self._facts(sweep, memory)) if decision.read else decision
        if decision.table is not None:
            # A pass waits a moment for the table, not for the judge: the next pass comes when it is
            # there.
            if memory.making is None:
                making = self._table(key, packed(sweep.spec), decision.table, memory)
                memory.making = asyncio.create_task(making, name="table of a sweep")
            await asyncio.wait({memory.making}, timeout=TABLE_SECONDS)
            decision = decide(self._facts(sweep, memory))
        if decision.read:
            return RETRY_SECONDS  # runs come and go faster than they can be read
        await self._cancel(decision.cancel)
        if await self._create(decision, memory):
            return 0.0  # it is decided anew with what was found out
        if changes := status_changes(sweep.status, decision.status):
            await self.change_status(sweep, changes)
        await self.post(sweep, decision.events)
        if decision.forget:
            self.memories.drop(key)
            return None
        retry = None
        not_created = memory.collected.not_created
        if decision.create and not_created is not None:
            retry = LEFTOVER_SECONDS if not_created.leftover else NOT_CREATED_RETRY_SECONDS
        memory.settled = seen if retry is None and decision.table is None else None
        return retry

    def _facts(self, sweep: Sweep, memory: SweepMemory) -> SweepFacts:
        return SweepFacts(
            sweep, swept_runs(self.indexes.runs_of(sweep.uid)), memory.collected, self.now()
        )

    async def _read(self, sweep: Sweep, name: str, memory: SweepMemory) -> None:
        """Straight from the API server: the index keeps no results of runs that have ended."""
        try:
            body = await self.cluster.get(KIND, namespace=sweep.namespace, name=name)
        except NotFound:
            self.indexes.drop(run_key(sweep.namespace, name))
            return
        self._learnt(body)
        run = run_of(body)
        if run.sweep_uid != sweep.uid:
            return
        try:
            figures = essence(BenchmarkRunStatus.model_validate(run.status))
        except ValueError:
            figures = (
                BenchmarkRunStatus()
            )  # written by another version of the API: there, but not to be compared
        memory.collected.measured[run.uid] = figures

    async def _table(self, key: Key, spec: bytes, wanted: TableWanted, memory: SweepMemory) -> None:
        table, problem = None, ""
        try:
            async with self._places.taken(key.namespace):
                job = SweepJob(
                    namespace=key.namespace,
                    spec=unpacked(spec),
                    baseline=wanted.baseline,
                    runs=wanted.runs,
                    missing=dict(wanted.missing),
                )
                table = await self.judge.judge(job, _parts(wanted, memory), SweepTable)
        except NotJudged as error:
            problem = str(error)
        except Exception as error:
            logger.exception("%s: its table", key)
            problem = type(error).__name__
        if problem:
            logger.warning("%s: its table is not made: %s", key, problem)
        memory.collected.table = TableMade(wanted, table, problem)
        memory.making = memory.settled = None
        self.enqueue(key)

    async def _cancel(self, refs: Iterable[Ref]) -> None:
        """Cancel each of the runs, whatever becomes of the others. Raises what failed first."""
        failed: list[ClusterError] = []
        for ref in refs:
            try:
                self._learnt(await self.cluster.cancel_run(ref))
            except ClusterError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    async def _create(self, decision: SweepDecision, memory: SweepMemory) -> bool:
        """Whether something turned out that is to be decided on."""
        collected, before = memory.collected, memory.collected.not_created
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
                collected.not_created = NotCreated(name, message, curable=True, leftover=True)
                break
            except (Forbidden, Invalid) as error:
                message = (
                    f"run {name} is refused by the API server: {bounded(str(error)).rstrip('. ')}"
                )
                curable, quota = isinstance(error, Forbidden), QUOTA in str(error)
                collected.not_created = NotCreated(name, message, curable, quota)
                break
        return collected.not_created is not None and collected.not_created != before

    def _learnt(self, body: dict[str, Any] | None) -> None:
        """A run as it came back. Its watch event will be no news to the index, so that it is put on
        the queue here."""
        key = self.indexes.learnt(KIND, body) if body is not None else None
        if key is not None:
            self.enqueue(key)


async def _parts(wanted: TableWanted, memory: SweepMemory) -> AsyncGenerator[Part, None]:
    for run in wanted.runs:
        status = memory.collected.measured[run.uid]
        yield Part.of(
            "run", status.model_dump_json(by_alias=True, exclude_none=True).encode(), name=run.uid
        )


def _is_leftover(found: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Whether the run that has the name belongs to a sweep of our sweep's name that was deleted,
    and goes with it."""
    owner, ours = raw.controller(found["metadata"]), raw.controller(manifest["metadata"])
    same = (owner.get("kind"), owner.get("name")) == (ours.get("kind"), ours.get("name"))
    return same and owner.get("uid") != ours.get("uid")
