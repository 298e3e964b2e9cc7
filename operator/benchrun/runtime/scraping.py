"""Scraping a run's servers (their metrics endpoints, and those of GPU exporters)."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import Any

from benchrun_client.engines import ENGINE

from benchrun.decide import Collected, GpuEndpoint, ScrapeTarget
from benchrun.effects import Fetcher, FetchError
from benchrun.measure import ServerFacts, UnreadableMetrics, gpu_values, parse_facts, parse_sample
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
SCRAPE_SECONDS = 10.0
VERSION_SECONDS = 3.0
GPU_INTERVAL_SECONDS = 5.0
"""An exporter renews its metrics every second at best, and for a whole node: no need to scrape it as often as a server."""
GPU_SECONDS = 4.0


@dataclass(eq=False)
class Scraper:
    """Scrapes one server. Calls `news` when something changed that a decision may depend on, not at every scrape."""

    target: ScrapeTarget
    collected: Collected
    _: KW_ONLY
    fetcher: Fetcher
    now: Callable[[], datetime]
    telemetry: Telemetry
    news: Callable[[], None]

    def __post_init__(self) -> None:
        gpus, pod, troubles = self.target.gpus, self.target.pod, self.collected.gpu_troubles
        self._gpus = None if gpus is None else GpuScraper(gpus, pod, troubles, self.fetcher, self.news)
        self._readable: bool | None = None
        self._start_time: float | None = None

    async def run(self) -> None:
        """Scrape for ever, and the exporter of its GPUs beside it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._scrape_on())
            if self._gpus is not None:
                tasks.create_task(self._gpus.run())

    async def _scrape_on(self) -> None:
        """Scrape at every tick; a scrape that takes longer than a tick skips those that it missed."""
        loop = asyncio.get_running_loop()
        interval = self.target.interval_seconds
        # Scrapes of many runs are spread over the interval, always at the same place.
        first = loop.time() + interval * (zlib.crc32(self.target.url.encode()) % 1000) / 1000
        tick = 0
        while True:
            await asyncio.sleep(first + tick * interval - loop.time())
            await self._scrape()
            tick = max(tick, int((loop.time() - first) // interval)) + 1

    async def _scrape(self) -> None:
        with self.telemetry.a_scrape() as outcome:
            try:
                url = self.target.url
                text = await self.fetcher.fetch(url, limit_bytes=MAX_BYTES, timeout_seconds=SCRAPE_SECONDS)
                at = self.now().timestamp()
                sample = parse_sample(text, at=at, role=self.target.role, pod=self.target.pod)
            except (FetchError, UnreadableMetrics) as error:
                outcome.result = "failure"
                self._turned(readable=False, why=str(error))
                return
        # With the exporter's figures since the scrape before: they change slowly.
        gpus: dict[str, Any] = {} if self._gpus is None else self._gpus.take()
        self.collected.samples.add(replace(sample, **gpus))
        if self.target.pod not in self.collected.server_facts:
            self.collected.server_facts[self.target.pod] = await self._facts(text)
        self._turned(readable=True, why="")
        if None not in (self._start_time, sample.start_time) and sample.start_time != self._start_time:
            self.news()  # it has restarted
        self._start_time = sample.start_time

    def _turned(self, *, readable: bool, why: str) -> None:
        if readable == self._readable:
            return
        self._readable = readable
        if not readable:
            logger.info("metrics of %s can't be read: %s", self.target.pod, why)
        self.news()

    async def _facts(self, text: str) -> ServerFacts:
        facts = parse_facts(text)
        url = self.target.url.removesuffix(ENGINE.metrics_path) + ENGINE.version_path
        try:
            answer = json.loads(await self.fetcher.fetch(url, limit_bytes=4096, timeout_seconds=VERSION_SECONDS))
            return replace(facts, version=str(answer["version"])[:100])
        except (FetchError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.info("version of %s is not known: %s", self.target.pod, error)
            return facts


@dataclass(eq=False)
class GpuScraper:
    """Scrapes a GPU exporter for one server. Calls `news` when it becomes unreadable or readable."""

    endpoint: GpuEndpoint
    pod: str
    troubles: dict[str, str]  # why nothing comes, by pod
    fetcher: Fetcher
    news: Callable[[], None]
    _latest: dict[str, float | None] | None = None
    _problem: str | None = None

    async def run(self) -> None:
        while True:
            self._note(await self._scrape())
            await asyncio.sleep(GPU_INTERVAL_SECONDS)

    def take(self) -> dict[str, float | None]:
        """The latest figures, once: they count for one instant. Empty where there are no new ones."""
        latest, self._latest = self._latest, None
        return latest or {}

    async def _scrape(self) -> str | None:
        """Why it did not succeed; None: it did."""
        try:
            text = await self.fetcher.fetch(self.endpoint.url, limit_bytes=MAX_BYTES, timeout_seconds=GPU_SECONDS)
            self._latest = gpu_values(text, namespace=self.endpoint.namespace, pod=self.pod)
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
            self.troubles.pop(self.pod, None)
        else:
            logger.info("GPUs of %s: %s", self.pod, why)
            self.troubles[self.pod] = why
        self.news()
