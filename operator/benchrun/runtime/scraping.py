"""Reading one server's metrics page again and again, and beside it the page of its node's GPU exporter."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from benchrun.decide.collected import Collected
from benchrun.decide.decision import GpuPage, ScrapeTarget
from benchrun.effects.clock import Clock
from benchrun.effects.scraper import Fetcher, FetchError
from benchrun.measure.exposition import ServerFacts, UnreadablePage, facts_from_page, sample_from_page
from benchrun.measure.gpus import gpu_values
from benchrun.measure.server_figures import Sample
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

MAX_PAGE_BYTES = 4 * 1024 * 1024
PAGE_SECONDS = 10.0
VERSION_SECONDS = 3.0
GPU_INTERVAL_SECONDS = 5.0
"""An exporter renews its page every second at best. It collects for a whole node: no need to ask as often as a server."""
GPU_PAGE_SECONDS = 4.0


@dataclass(eq=False)
class Scraper:
    """Follows one page. Calls `news` when something happened that a decision may turn on, not at every reading."""

    target: ScrapeTarget
    collected: Collected
    _: KW_ONLY
    fetcher: Fetcher
    clock: Clock
    telemetry: Telemetry
    news: Callable[[], None]

    def __post_init__(self) -> None:
        self._gpus: GpuReader | None = None
        if self.target.gpus is not None:
            self._gpus = GpuReader(
                self.target.gpus, self.target.pod, self.collected.gpu_troubles, self.fetcher, self.news
            )
        self._readable: bool | None = None
        self._start_time: float | None = None

    async def run(self) -> None:
        """Read for ever, and what there is of GPUs beside it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_on())
            if self._gpus is not None:
                tasks.create_task(self._gpus.run())

    async def _read_on(self) -> None:
        """Read at every tick; a reading that takes longer than a tick skips those that it missed."""
        loop = asyncio.get_running_loop()
        interval = self.target.interval_seconds
        # Pages of many runs are spread over the interval, always at the same place.
        first = loop.time() + interval * (zlib.crc32(self.target.url.encode()) % 1000) / 1000
        tick = 0
        while True:
            await asyncio.sleep(first + tick * interval - loop.time())
            await self._read()
            tick = max(tick, int((loop.time() - first) // interval)) + 1

    async def _read(self) -> None:
        with self.telemetry.a_scrape() as outcome:
            try:
                page = await self.fetcher.fetch(
                    self.target.url, limit_bytes=MAX_PAGE_BYTES, timeout_seconds=PAGE_SECONDS
                )
                at = self.clock.now().timestamp()
                sample = sample_from_page(page, at=at, role=self.target.role, pod=self.target.pod)
            except (FetchError, UnreadablePage) as error:
                outcome.result = "failure"
                self._turned(readable=False, why=str(error))
                return
        self.collected.samples.add(self._with_gpus(sample))
        if self.target.pod not in self.collected.facts:
            self.collected.facts[self.target.pod] = await self._facts(page)
        self._turned(readable=True, why="")
        self._notice_restart(sample)

    def _with_gpus(self, sample: Sample) -> Sample:
        """With what an exporter's page told since the reading before: what it tells changes slowly."""
        if self._gpus is None:
            return sample
        values: dict[str, Any] = self._gpus.take()
        return replace(sample, **values)

    def _turned(self, *, readable: bool, why: str) -> None:
        if readable == self._readable:
            return
        self._readable = readable
        if not readable:
            logger.info("metrics of %s can't be read: %s", self.target.pod, why)
        self.news()

    def _notice_restart(self, sample: Sample) -> None:
        if None not in (self._start_time, sample.start_time) and sample.start_time != self._start_time:
            self.news()
        self._start_time = sample.start_time

    async def _facts(self, page: str) -> ServerFacts:
        facts = facts_from_page(page)
        url = self.target.url.removesuffix("/metrics") + "/version"
        try:
            answer = json.loads(await self.fetcher.fetch(url, limit_bytes=4096, timeout_seconds=VERSION_SECONDS))
            return replace(facts, version=str(answer["version"])[:100])
        except (FetchError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.info("version of %s is not known: %s", self.target.pod, error)
            return facts


@dataclass(eq=False)
class GpuReader:
    """Reads an exporter's page for one server. Calls `news` when it turns unreadable or readable."""

    page: GpuPage
    pod: str
    troubles: dict[str, str]
    """Why nothing comes, by pod."""
    fetcher: Fetcher
    news: Callable[[], None]
    _latest: dict[str, float | None] | None = None
    _told: str | None = None

    async def run(self) -> None:
        """For ever."""
        while True:
            self._turned(await self._read())
            await asyncio.sleep(GPU_INTERVAL_SECONDS)

    def take(self) -> dict[str, float | None]:
        """The latest reading, once: each counts for one instant. Nothing is known where there is no new one."""
        latest, self._latest = self._latest, None
        return latest or {}

    async def _read(self) -> str | None:
        """Why it did not succeed; None: it did."""
        try:
            page = await self.fetcher.fetch(self.page.url, limit_bytes=MAX_PAGE_BYTES, timeout_seconds=GPU_PAGE_SECONDS)
            self._latest = gpu_values(page, namespace=self.page.namespace, pod=self.pod)
        except FetchError as error:
            return f"the exporter's page can't be read: {error}"[:253]
        except UnreadablePage as error:
            return str(error)[:253]
        return None

    def _turned(self, why: str | None) -> None:
        if why == self._told:
            return
        self._told = why
        if why is None:
            self.troubles.pop(self.pod, None)
        else:
            logger.info("GPUs of %s: %s", self.pod, why)
            self.troubles[self.pod] = why
        self.news()
