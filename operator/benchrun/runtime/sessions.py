"""What goes on in the background for each run: servers being scraped, a client being followed. As decided, no more and no less.

A task that dies is started again: nothing that a server or a client answers may end it for good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from benchrun.api import names
from benchrun.decide.decision import PullTarget, ScrapeTarget
from benchrun.effects.client_link import Exchanger
from benchrun.effects.clock import Clock
from benchrun.effects.errors import ClusterError, NotFound
from benchrun.effects.kubernetes_api import Cluster
from benchrun.effects.resources import LEADER_WORKER_SET
from benchrun.observe import raw
from benchrun.observe.views import Run
from benchrun.runtime.following import Follower
from benchrun.runtime.indexes import Indexes, RunKey
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.scraping import Scraper
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

Task = asyncio.Task[None]
FIRST_RESTART_SECONDS = 1.0
LONGEST_RESTART_SECONDS = 60.0
GROUP_SECONDS = 5.0
"""How often a LeaderWorkerSet is read: a cluster may lack the kind, so it can't be watched."""


@dataclass(slots=True)
class Session:
    """The tasks of one run."""

    memory: RunMemory
    scrapers: dict[ScrapeTarget, Task] = field(default_factory=dict)
    follower: Follower | None = None
    following: Task | None = None
    group: Task | None = None


class Sessions:
    """Starts and stops background tasks to match each run's latest decision."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        exchanger: Exchanger,
        clock: Clock,
        telemetry: Telemetry,
        indexes: Indexes,
        enqueue: Callable[[RunKey], None],
    ) -> None:
        self._cluster = cluster
        self._indexes = indexes
        self._exchanger = exchanger
        self._clock = clock
        self._telemetry = telemetry
        self._enqueue = enqueue
        self._sessions: dict[RunKey, Session] = {}
        self._ending: set[Task] = set()

    def __len__(self) -> int:
        """Runs with something going on."""
        return len(self._sessions)

    def follow(
        self,
        key: RunKey,
        run: Run,
        memory: RunMemory,
        *,
        scrape: tuple[ScrapeTarget, ...],
        pull: PullTarget | None,
    ) -> None:
        """From now on do exactly this for the run."""
        session = self._sessions.get(key)
        if session is not None and session.memory is not memory:
            self._end(self._sessions.pop(key))
            session = None
        if session is None:
            if not scrape and pull is None:
                return
            session = self._sessions[key] = Session(memory)
        self._follow_pages(key, session, scrape)
        self._follow_client(key, session, pull)
        if session.group is None and nodes_of(run) > 1:
            session.group = self._start(lambda: self._read_group(key, run), "read group", str(key))
        if not session.scrapers and session.follower is None:
            self.stop(key)

    async def acknowledge(self, key: RunKey, through: int) -> bool:
        """Tell the run's client that records below `through` are stored; False when it did not hear."""
        session = self._sessions.get(key)
        if session is None or session.follower is None:
            return False
        return await session.follower.acknowledge(through)

    def stop(self, key: RunKey) -> None:
        """End everything that goes on for the run."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._end(session)

    async def close(self) -> None:
        """End everything."""
        for key in tuple(self._sessions):
            self.stop(key)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _follow_pages(self, key: RunKey, session: Session, wanted: tuple[ScrapeTarget, ...]) -> None:
        for target in session.scrapers.keys() - set(wanted):
            self._cancel(session.scrapers.pop(target))
        for target in wanted:
            if target not in session.scrapers:
                scraper = Scraper(
                    target,
                    session.memory.collected,
                    fetcher=self._exchanger,
                    clock=self._clock,
                    telemetry=self._telemetry,
                    news=lambda: self._enqueue(key),
                )
                session.scrapers[target] = self._start(scraper.run, "scrape", target.pod)

    def _follow_client(self, key: RunKey, session: Session, wanted: PullTarget | None) -> None:
        current = session.follower
        if current is not None and wanted is not None and _same_client(current.target, wanted):
            current.target = wanted
            return
        if session.following is not None:
            self._cancel(session.following)
            session.following, session.follower = None, None
        if wanted is not None:
            session.follower = Follower(
                wanted,
                session.memory.collected,
                exchanger=self._exchanger,
                telemetry=self._telemetry,
                news=lambda: self._enqueue(key),
            )
            session.following = self._start(session.follower.run, "follow", wanted.pod)

    async def _read_group(self, key: RunKey, run: Run) -> None:
        """Bring what is known of the run's LeaderWorkerSet up to date, now and then."""
        name = names.group_name(run.name, run.uid)
        while True:
            try:
                body = await self._cluster.get(LEADER_WORKER_SET, namespace=run.namespace, name=name)
                changed = self._indexes.learnt(LEADER_WORKER_SET, body) is not None
            except NotFound:
                changed = self._indexes.children(key).named(LEADER_WORKER_SET, name) is not None
                self._indexes.drop(LEADER_WORKER_SET, run.namespace, name)
            except ClusterError as error:
                logger.debug("%s: its LeaderWorkerSet was not read: %s", key, error)
                changed = False
            if changed:
                self._enqueue(key)
            await asyncio.sleep(GROUP_SECONDS)

    def _start(self, work: Callable[[], Awaitable[None]], kind: str, what: str) -> Task:
        return asyncio.create_task(self._kept_alive(work, kind, what), name=f"{kind} {what}")

    async def _kept_alive(self, work: Callable[[], Awaitable[None]], kind: str, what: str) -> None:
        pause = FIRST_RESTART_SECONDS
        while True:
            try:
                await work()
            except Exception:
                logger.exception("%s %s broke off; it is started again in %.0f s", kind, what, pause)
            self._telemetry.task_restarted(kind)
            await asyncio.sleep(pause)
            pause = min(LONGEST_RESTART_SECONDS, 2 * pause)

    def _end(self, session: Session) -> None:
        for task in (*session.scrapers.values(), session.following, session.group):
            if task is not None:
                self._cancel(task)

    def _cancel(self, task: Task) -> None:
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def nodes_of(run: Run) -> int:
    """Pods that make up each of the run's servers."""
    return raw.number(raw.mapping(run.spec.get("server")).get("nodesPerReplica"), default=1)


def _same_client(one: PullTarget, other: PullTarget) -> bool:
    return (one.pod, one.url, one.token) == (other.pod, other.url, other.token)
