"""Tasks that read a run's pods: scrape servers and exporters, and poll the client for records."""

import asyncio
import json
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from time import thread_time
from typing import Any

from benchrun_client.engines import Engine

from benchrun.api import plain_text
from benchrun.decide import (
    Collected,
    ExporterEndpoint,
    ExporterKind,
    PullTarget,
    ScrapeTarget,
)
from benchrun.effects import (
    ClientRecords,
    Fetcher,
    FetchError,
    Pulled,
    UnusableAnswer,
)
from benchrun.measure import (
    ServerFacts,
    UnreadableMetrics,
    bounded_settings,
    cpu_values,
    gpu_values,
    parse_facts,
    parse_sample,
)
from benchrun.runtime import log_lines
from benchrun.runtime.background_tasks import doubling
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

PAGE_BYTES = 2 * 1024 * 1024
"""Most bytes of a server's page, enough for 80 engines; one has some 25 kB."""
MAX_BYTES = 4 * 1024 * 1024  # most bytes of an exporter's page
SCRAPE_SECONDS = 10.0
# CPU seconds of a page that delays no scrape: one engine's takes 0.0005
CHEAP_SECONDS = 0.002
SECONDS_A_CPU_SECOND = 20
"""Seconds of pause for every further second of CPU, so that the pages of a run take at most a
twentieth of the event loop's time."""
VERSION_SECONDS = 3.0
VERSION_BYTES = 128 * 1024  # Some engines answer with all their settings.
EXPORTER_INTERVAL_SECONDS = 5.0
"""Seconds between two scrapes of an exporter: it has the metrics of a whole node, and renews them
every second at most."""
EXPORTER_SECONDS = 4.0
VALUES: Mapping[ExporterKind, Callable[..., dict[str, float | None]]] = {
    "gpu": gpu_values,
    "cpu": cpu_values,
}


# Between reads of a pod that no longer answers: its end may be seen a moment later.
FIRST_LOOK_SECONDS = 2.0
LONGEST_LOOK_SECONDS = 60.0


async def _not_looked_at() -> None:
    """Do nothing; this stands for reading the pods where they need not be read."""


@dataclass(eq=False)
class Doubts:
    """Reads the run's pods from the cluster while one of them does not answer, less and less often.

    The pod may have ended without a watch event.
    """

    look: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._pauses: Iterator[float] | None = None
        self._due = 0.0

    def answered(self) -> None:
        """Record an answer: a pod that has answered is read once it stops answering."""
        self._pauses = doubling(FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS)
        self._due = 0.0

    async def unanswered(self) -> None:
        """Read the run's pods from the cluster, because the polled pod did not answer a request.

        Do nothing if the pod has never answered, or if the next read is not due yet.
        """
        now = asyncio.get_running_loop().time()
        if self._pauses is None or now < self._due:
            return
        self._due = now + next(self._pauses)
        await self.look()


def _facts(text: str, engine: Engine) -> ServerFacts | None:
    """Return the facts that the server reports of itself; None if they can't be parsed.

    The figures of such a page are used all the same.
    """
    try:
        return parse_facts(text, engine)
    except UnreadableMetrics:
        return None


@dataclass(eq=False)
class Scraper:
    """Scrapes one server.

    Calls `news` when something changed that a decision may depend on, not at every scrape.
    """

    target: ScrapeTarget
    collected: Collected
    _: KW_ONLY
    fetcher: Fetcher
    now: Callable[[], datetime]
    telemetry: Telemetry
    news: Callable[[], None]
    servers: int = 1  # servers of the run, whose pages share the CPU time
    # whether memory for samples is scarce
    is_tight: Callable[[], bool] = lambda: False
    held: Callable[[], None] = lambda: None  # called when more is held
    # reads the run's pods from the cluster
    look: Callable[[], Awaitable[None]] = _not_looked_at

    def __post_init__(self) -> None:
        self._doubts = Doubts(self.look)
        pod = self.target.pod
        troubles = self.collected.exporter_troubles
        self._exporters = [
            ExporterScraper(e, pod, troubles, self.fetcher, self.news)
            for e in self.target.exporters
        ]
        self._readable: bool | None = None
        self._start_time: float | None = None
        self._cost_seconds = 0.0  # CPU time of reading the latest page

    async def run(self) -> None:
        """Scrape the server for ever, and the exporters of its node beside it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._scrape_on())
            for exporter in self._exporters:
                tasks.create_task(exporter.run())

    async def _scrape_on(self) -> None:
        """Scrape once every interval, for ever.

        After a scrape that took longer than an interval, or much CPU, missed scrapes are skipped.
        """
        loop = asyncio.get_running_loop()
        interval = self.target.interval_seconds
        # Scrapes of many runs are spread over the interval, always at the same place.
        first = (
            loop.time()
            + interval * (zlib.crc32(self.target.url.encode()) % 1000) / 1000
        )
        tick = 0
        while True:
            await asyncio.sleep(first + tick * interval - loop.time())
            await self._scrape()
            await asyncio.sleep(
                (self._cost_seconds - CHEAP_SECONDS)
                * SECONDS_A_CPU_SECOND
                * self.servers
            )
            tick = max(tick, int((loop.time() - first) // interval)) + 1

    async def _scrape(self) -> None:
        with self.telemetry.a_scrape() as outcome:
            try:
                url = self.target.url
                text = await self.fetcher.fetch(
                    url, limit_bytes=PAGE_BYTES, timeout_seconds=SCRAPE_SECONDS
                )
                at = self.now().timestamp()
                began = thread_time()
                try:
                    role, pod = self.target.role, self.target.pod
                    sample = parse_sample(
                        text, self.target.engine, at=at, role=role, pod=pod
                    )
                    is_known = pod in self.collected.server_facts
                    facts = None if is_known else _facts(text, self.target.engine)
                finally:
                    self._cost_seconds = thread_time() - began
            except (FetchError, UnreadableMetrics) as error:
                outcome.result = "failure"
                self._turned(readable=False, why=str(error))
                await self._doubts.unanswered()
                return
        self._doubts.answered()
        # With the exporters' figures since the scrape before: they change slowly.
        beside: dict[str, Any] = {
            name: value
            for each in self._exporters
            for name, value in each.take().items()
        }
        self.collected.samples.add(
            replace(sample, **beside), is_tight=self.is_tight()
        )
        self.held()
        if facts is not None:
            facts = await self._with_version(facts)
            self.collected.note_server(self.target.pod, facts)
        self._turned(readable=True, why="")
        if (
            None not in (self._start_time, sample.start_time)
            and sample.start_time != self._start_time
        ):
            self.news()  # the server has restarted
        self._start_time = sample.start_time

    def _turned(self, *, readable: bool, why: str) -> None:
        if readable == self._readable:
            return
        self._readable = readable
        if not readable:
            logger.info("metrics of %s can't be read: %s", self.target.pod, why)
        self.news()

    async def _with_version(self, facts: ServerFacts) -> ServerFacts:
        engine = self.target.engine
        url = (
            self.target.url.removesuffix(engine.metrics_path) + engine.version_path
        )
        try:
            answer = json.loads(
                await self.fetcher.fetch(
                    url, limit_bytes=VERSION_BYTES, timeout_seconds=VERSION_SECONDS
                )
            )
            version = plain_text(str(answer[engine.version_key]))[:100]
            settings = bounded_settings(engine.answered_settings(answer))
            return replace(
                facts, version=version, reported={**facts.reported, **settings}
            )
        except (
            FetchError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            logger.info(
                "the engine version of %s can't be read: %s", self.target.pod, error
            )
            return facts


@dataclass(eq=False)
class ExporterScraper:
    """Scrapes an exporter for one server. Calls `news` when it becomes unreadable or readable."""

    endpoint: ExporterEndpoint
    pod: str
    troubles: dict[tuple[ExporterKind, str], str]
    """Why there are no figures, by kind of exporter and pod."""
    fetcher: Fetcher
    news: Callable[[], None]
    _latest: dict[str, float | None] | None = None
    _problem: str | None = None

    async def run(self) -> None:
        while True:
            self._note(await self._scrape())
            await asyncio.sleep(EXPORTER_INTERVAL_SECONDS)

    def take(self) -> dict[str, float | None]:
        """Return the latest figures; empty if there are none since the last call.

        No figure is returned twice: it belongs to one instant, and so to one sample.
        """
        latest = self._latest
        self._latest = None
        return latest or {}

    async def _scrape(self) -> str | None:
        """Scrape the endpoint once; return the reason if that failed, else None."""
        try:
            text = await self.fetcher.fetch(
                self.endpoint.url,
                limit_bytes=MAX_BYTES,
                timeout_seconds=EXPORTER_SECONDS,
            )
            self._latest = VALUES[self.endpoint.kind](
                text, namespace=self.endpoint.namespace, pod=self.pod
            )
        except FetchError as error:
            return f"the exporter's metrics can't be read: {error}"[:253]
        except UnreadableMetrics as error:
            return str(error)[:253]
        return None

    def _note(self, why: str | None) -> None:
        if why == self._problem:
            return
        self._problem = why
        if why is None:
            self.troubles.pop((self.endpoint.kind, self.pod), None)
        else:
            logger.info(
                "%s figures of %s: %s", self.endpoint.kind.upper(), self.pod, why
            )
            self.troubles[self.endpoint.kind, self.pod] = why
        self.news()


FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 5.0
SILENT_AFTER_SECONDS = 15.0
"""Seconds without a usable answer after which the client counts as silent: deadlines then no longer
wait for its answer."""
UNUSABLE_RETRY_SECONDS = 2.0  # seconds of pause after an answer that can't be used
# number of unusable answers in a row that ends the run: 4 s at least
MISMATCHED_AFTER = 3
NO_NEWS_SECONDS = 1.0
"""Least seconds between two requests where the answer has no news or known records: a correct
client delays such an answer."""
BETWEEN_ANSWERS_SECONDS = 0.1
"""Least seconds between two requests, since a client may have news all the time."""
NO_ROOM_SECONDS = 1.0  # seconds between two checks whether there is room again
NEXT_STAGE_SECONDS = 1.0
"""Seconds that the news of a new stage is delayed, so that the same status write also has the
record of the stage before."""


async def _nowhere(_: int) -> bool:
    """Return False: no record is stored."""
    return False


@dataclass(eq=False)
class ClientPoller:
    """Polls one client. Calls `news` for each new record and each change of the progress."""

    target: PullTarget  # may be replaced by a target of the same client with another first record
    collected: Collected
    _: KW_ONLY
    fetcher: Fetcher
    telemetry: Telemetry
    news: Callable[[], None]
    # whether memory for records is scarce
    is_tight: Callable[[], bool] = lambda: False
    held: Callable[[], None] = lambda: None  # called when more is held
    is_stored: Callable[[int], Awaitable[bool | None]] = _nowhere
    """Returns whether the cluster holds a record of that sequence; None if it can't be told now."""
    # reads the run's pods from the cluster
    look: Callable[[], Awaitable[None]] = _not_looked_at

    def __post_init__(self) -> None:
        self._doubts = Doubts(self.look)
        self.records = ClientRecords(self.fetcher, self.target)
        self._failures = self._unusable = 0
        self._good_at: float | None = None

    async def run(self) -> None:
        """Poll for ever; a client that does not answer is polled less and less often."""
        watch = asyncio.create_task(self._watch_silence())
        self._check_silence()  # a client that keeps breaking off is silent, too
        try:
            while True:
                pause = await self._poll()
                await asyncio.sleep(pause)
        finally:
            watch.cancel()

    async def _poll(self) -> float:
        """Poll once, and return the seconds to pause before the next poll."""
        if self.collected.backlog_is_full:
            return LONGEST_RETRY_SECONDS
        if self.is_tight():
            return NO_ROOM_SECONDS
        wanted = self.collected.next_sequence(self.target.from_sequence)
        progress = self.collected.client.progress
        seen = progress.version if progress is not None else -1
        began = asyncio.get_running_loop().time()
        try:
            pulled = await self.records.pull(
                from_sequence=wanted, seen_version=seen
            )
        except FetchError as error:
            self._failures += 1
            logger.log(
                logging.INFO if self._failures == 1 else logging.DEBUG,
                "client %s: %s",
                self.target.pod,
                error,
            )
            await self._doubts.unanswered()
            return min(
                LONGEST_RETRY_SECONDS,
                FIRST_RETRY_SECONDS * 2.0 ** min(self._failures - 1, 10),
            )
        except UnusableAnswer as error:
            self._refuse(str(error))
            return UNUSABLE_RETRY_SECONDS
        self._failures = 0
        self._good_at = asyncio.get_running_loop().time()
        self._doubts.answered()
        return await self._take(pulled, wanted, took_seconds=self._good_at - began)

    async def _take(
        self, pulled: Pulled, wanted: int, *, took_seconds: float
    ) -> float:
        """Keep the records and progress of an answer, and return the seconds to pause."""
        new = [
            arrival for arrival in pulled.arrivals if self.collected.take(arrival)
        ]
        self.telemetry.records_taken(len(new))
        self.held()
        client = self.collected.client
        before = client.progress
        client.progress = pulled.progress
        log_lines.concerns_stage(pulled.progress.stage)
        self._note_silence(False)
        changed = before is None or before.version != pulled.progress.version
        moving = {"version": 0, "stage": None, "requests_done": 0}
        # News are small that change nothing but the stage and its requests.
        is_small = before is not None and before.model_copy(
            update=moving
        ) == pulled.progress.model_copy(update=moving)
        if new or (changed and not is_small):
            self.news()
        elif changed:
            asyncio.get_running_loop().call_later(NEXT_STAGE_SECONDS, self.news)
        if pulled.refused:
            self._refuse(pulled.refused[0], count=len(pulled.refused))
            return UNUSABLE_RETRY_SECONDS
        self._unusable = 0
        # The client has made the wanted record and does not have it: it was acknowledged, perhaps
        # by another operator that stored it, and no watch reports that.
        is_gone = (
            pulled.progress.records > wanted
            and wanted not in self.collected.sequences
        )
        if is_gone and await self.is_stored(wanted) is False:
            client.lost_record = wanted
            self.news()
        if new or (changed and not pulled.arrivals):
            return BETWEEN_ANSWERS_SECONDS
        return max(BETWEEN_ANSWERS_SECONDS, NO_NEWS_SECONDS - took_seconds)

    async def _watch_silence(self) -> None:
        """Check for silence until the client has answered once.

        After that its silence decides nothing: its pod is looked at instead (`Doubts`). A client
        without news is silent for `WAIT_SECONDS` at a time, and is not reported for it.
        """
        while self.collected.client.progress is None:
            await asyncio.sleep(SILENT_AFTER_SECONDS / 3)
            self._check_silence()

    def _check_silence(self) -> None:
        now = asyncio.get_running_loop().time()
        self._good_at = now if self._good_at is None else self._good_at
        self._note_silence(now - self._good_at >= SILENT_AFTER_SECONDS)

    def _note_silence(self, silent: bool) -> None:
        client = self.collected.client
        was_answered = client.answered
        client.silent = silent
        if client.answered != was_answered:
            self.news()

    def _refuse(self, reason: str, *, count: int = 1) -> None:
        """Record that an answer, or a record in it, can't be used.

        After `MISMATCHED_AFTER` such answers in a row the run ends.
        """
        self._unusable += 1
        logger.log(
            logging.WARNING if self._unusable == 1 else logging.DEBUG,
            "client %s: %s",
            self.target.pod,
            reason,
        )
        self.telemetry.records_refused(count)
        if self._unusable >= MISMATCHED_AFTER:
            self.collected.client.mismatch = reason
            self.news()
