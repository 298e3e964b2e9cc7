"""Background tasks of each run, as the latest decision wants: scrape servers, poll the client."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from benchrun import names
from benchrun.child_kinds import LEADER_WORKER_SET
from benchrun.decide import PullTarget, QueuedWorkload, ScrapeTarget
from benchrun.effects import ClusterError, Fetcher, KubernetesApi, NotFound
from benchrun.observe import Key, Run, child_of, untrusted_json as raw
from benchrun.runtime.background_tasks import Work, doubling, keep_doing
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import Measured, RunMemory
from benchrun.runtime.queued_workloads import QueuedWorkloads
from benchrun.runtime.scrapers import ClientPoller, Scraper
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

FIRST_RESTART_SECONDS = 1.0
LONGEST_RESTART_SECONDS = 60.0
GROUP_SECONDS = 5.0
"""Seconds between two reads of a LeaderWorkerSet: it is not watched, since a cluster may lack the
kind."""


@dataclass(slots=True)
class RunTasks:
    """The background tasks of one run, and the memory that they fill."""

    memory: RunMemory
    scrapers: dict[ScrapeTarget, asyncio.Task[None]] = field(default_factory=dict)
    poller: ClientPoller | None = None
    polling: asyncio.Task[None] | None = None
    group: asyncio.Task[None] | None = None


@dataclass(kw_only=True, eq=False)
class Sessions:
    """Starts and stops background tasks to match each run's latest decision."""

    cluster: KubernetesApi
    fetcher: Fetcher
    now: Callable[[], datetime]
    telemetry: Telemetry
    indexes: Indexes
    enqueue: Callable[[Key], None]
    workloads: QueuedWorkloads
    measured: Measured = field(default_factory=Measured)

    def __post_init__(self) -> None:
        self._sessions: dict[Key, RunTasks] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def follow(
        self,
        key: Key,
        run: Run,
        memory: RunMemory,
        *,
        scrape: tuple[ScrapeTarget, ...],
        pull: PullTarget | None,
        queued: QueuedWorkload | None = None,
    ) -> None:
        """Scrape exactly these servers, poll this client and follow this Workload from now on.

        `pull` is None if there is no client to poll, `queued` if no Workload is to be followed.
        """
        if (
            session := self._sessions.get(key)
        ) is not None and session.memory is not memory:
            self.stop(key)
            session = None
        if session is None and not scrape and pull is None and queued is None:
            return
        session = self._sessions[key] = session or RunTasks(memory)
        self._scrape(key, session, scrape)
        self._poll(key, session, pull)
        self.workloads.follow(key, queued, memory.collected)
        nodes = raw.number(
            raw.mapping(run.spec.get("server")).get("nodesPerReplica"), default=1
        )
        if session.group is None and nodes > 1:
            name = names.group_name(run.name, run.uid)
            session.group = self._start(
                lambda: self._read_group(key, name), "read group", str(key)
            )
        if not session.scrapers and session.poller is None and queued is None:
            self.stop(key)

    async def acknowledge(self, key: Key, through: int) -> bool:
        """Tell the run's client that records below `through` are stored.

        Return False if the client did not answer.
        """
        session = self._sessions.get(key)
        poller = session.poller if session is not None else None
        return poller is not None and await poller.records.acknowledge(through)

    def stop(self, key: Key) -> None:
        if (session := self._sessions.pop(key, None)) is not None:
            self.workloads.follow(key, None, session.memory.collected)
            self._end(*session.scrapers.values(), session.polling, session.group)

    async def close(self) -> None:
        for key in tuple(self._sessions):
            self.stop(key)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _scrape(
        self, key: Key, session: RunTasks, wanted: tuple[ScrapeTarget, ...]
    ) -> None:
        collected = session.memory.collected
        fetcher = self.fetcher
        news = partial(self.enqueue, key)
        for target in session.scrapers.keys() - set(wanted):
            self._end(session.scrapers.pop(target))
        for target in (t for t in wanted if t not in session.scrapers):
            scraper = Scraper(
                target,
                collected,
                fetcher=fetcher,
                now=self.now,
                telemetry=self.telemetry,
                news=news,
                servers=len(wanted),
                is_tight=lambda: self.measured.samples.is_over(key.namespace),
                held=partial(self.measured.note, key, collected),
                look=partial(self._look_at_pods, key, session.memory.uid),
            )
            session.scrapers[target] = self._start(
                scraper.run, "scrape", target.pod
            )

    def _poll(self, key: Key, session: RunTasks, wanted: PullTarget | None) -> None:
        current = session.poller
        collected = session.memory.collected
        news = partial(self.enqueue, key)
        if current is not None and wanted is not None:
            old = current.target
            if (old.pod, old.url, old.token) == (
                wanted.pod,
                wanted.url,
                wanted.token,
            ):
                current.target = wanted
                return
        self._end(session.polling)
        session.polling = None
        session.poller = None
        if wanted is not None:
            poller = ClientPoller(
                wanted,
                collected,
                fetcher=self.fetcher,
                telemetry=self.telemetry,
                news=news,
                is_tight=lambda: not self.measured.records.may_grow(key.namespace),
                held=partial(self.measured.note, key, collected),
                is_stored=partial(self._is_stored, key, wanted.run_uid),
                look=partial(self._look_at_pods, key, wanted.run_uid),
            )
            session.poller = poller
            session.polling = self._start(poller.run, "follow", wanted.pod)

    async def _is_stored(
        self, key: Key, run_uid: str, sequence: int
    ) -> bool | None:
        """Return whether the cluster holds the record; None if that can't be read now.

        Another operator may have stored the record. A record that is found is put into the index.
        """
        name = names.stage_name(key.name, run_uid, sequence)
        try:
            body = await self.cluster.get(
                "ConfigMap", namespace=key.namespace, name=name
            )
        except NotFound:
            return False
        except ClusterError as error:
            logger.info(
                "%s: could not check whether record %d is stored: %s",
                key,
                sequence,
                error,
            )
            return None
        self.indexes.learnt("ConfigMap", body)
        self.enqueue(key)
        return child_of("ConfigMap", body).owner_uid == run_uid

    async def _look_at_pods(self, key: Key, run_uid: str) -> None:
        """Read the run's pods from the cluster into the index, in case a watch is behind."""
        selector = f"{names.LABEL_RUN_UID}={run_uid}"
        before = [
            pod for pod in self.indexes.children(key).pods if pod.run_uid == run_uid
        ]
        there = set[str]()
        is_news = False
        try:
            async for body in self.cluster.list(
                "Pod", namespace=key.namespace, selector=selector
            ):
                there.add(raw.text(raw.mapping(body.get("metadata")).get("uid")))
                is_news |= self.indexes.learnt("Pod", body) is not None
        except ClusterError as error:
            logger.info("%s: the run's pods could not be read: %s", key, error)
            return
        for pod in (pod for pod in before if pod.uid not in there):
            self.indexes.drop(Key("Pod", key.namespace, pod.name), pod.uid)
            is_news = True
        if is_news:
            self.enqueue(key)

    async def _read_group(self, key: Key, name: str) -> None:
        """Read the run's LeaderWorkerSet into the index, every GROUP_SECONDS for ever."""
        while True:
            await self._read(LEADER_WORKER_SET, key, name)
            await asyncio.sleep(GROUP_SECONDS)

    async def _read(self, kind: str, key: Key, name: str) -> None:
        """Read an object that is not watched into the index."""
        known = self.indexes.children(key).named(kind, name)
        changed = False
        try:
            body = await self.cluster.get(kind, namespace=key.namespace, name=name)
            changed = self.indexes.learnt(kind, body) is not None
        except NotFound:
            changed = known is not None
            if known is not None:
                self.indexes.drop(Key(kind, key.namespace, name), known.uid)
        except ClusterError as error:
            logger.debug("%s: the %s could not be read: %s", key, kind, error)
        if changed:
            self.enqueue(key)

    def _start(self, work: Work, kind: str, what: str) -> asyncio.Task[None]:
        pauses = doubling(FIRST_RESTART_SECONDS, LONGEST_RESTART_SECONDS)
        restarted = partial(self.telemetry.task_restarted, kind)
        return keep_doing(
            f"{kind} {what}", work, pauses=pauses, restarted=restarted
        )

    def _end(self, *running: asyncio.Task[None] | None) -> None:
        for task in [each for each in running if each is not None]:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
