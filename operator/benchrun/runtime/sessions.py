"""What goes on in the background for each run: pages being read, a client being followed. As decided, no more and no less."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from benchrun.decide.decision import PullTarget, ScrapeTarget
from benchrun.effects.client_link import Exchanger
from benchrun.effects.clock import Clock
from benchrun.effects.kubernetes_api import Cluster
from benchrun.observe.views import Run
from benchrun.runtime.following import Follower
from benchrun.runtime.indexes import RunKey
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.scraping import Scraper
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

Task = asyncio.Task[None]


@dataclass(slots=True)
class Session:
    """The tasks of one run."""

    memory: RunMemory
    scrapers: dict[ScrapeTarget, Task] = field(default_factory=dict)
    follower: Follower | None = None
    following: Task | None = None


class Sessions:
    """Starts and stops background tasks to match each run's latest decision."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        exchanger: Exchanger,
        clock: Clock,
        telemetry: Telemetry,
        enqueue: Callable[[RunKey], None],
    ) -> None:
        self._cluster = cluster
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
        self._follow_client(key, run, session, pull)
        if not session.scrapers and session.following is None and session.follower is None:
            del self._sessions[key]

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
                    session.memory,
                    fetcher=self._exchanger,
                    clock=self._clock,
                    telemetry=self._telemetry,
                    news=lambda: self._enqueue(key),
                )
                session.scrapers[target] = self._start(scraper.run(), f"scrape {target.pod}")

    def _follow_client(self, key: RunKey, run: Run, session: Session, wanted: PullTarget | None) -> None:
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
                run,
                session.memory,
                cluster=self._cluster,
                exchanger=self._exchanger,
                telemetry=self._telemetry,
                news=lambda: self._enqueue(key),
            )
            session.following = self._start(session.follower.run(), f"follow {wanted.pod}")

    def _start(self, work: Coroutine[None, None, None], name: str) -> Task:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_complain)
        return task

    def _end(self, session: Session) -> None:
        for task in (*session.scrapers.values(), session.following):
            if task is not None:
                self._cancel(task)

    def _cancel(self, task: Task) -> None:
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _same_client(one: PullTarget, other: PullTarget) -> bool:
    return (one.pod, one.url, one.nonce) == (other.pod, other.url, other.nonce)


def _complain(task: Task) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s broke off", task.get_name(), exc_info=error)
