"""Reading the page of a GPU exporter for one server, beside the server's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from benchrun.decide.decision import GpuPage
from benchrun.effects.scraper import Fetcher, FetchError
from benchrun.measure.exposition import UnreadablePage
from benchrun.measure.gpu_page import GpuReading, gpu_reading

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
"""An exporter renews its page every second at best. It collects for a whole node: no need to ask as often as a server."""
MAX_PAGE_BYTES = 4 * 1024 * 1024
PAGE_SECONDS = 4.0


class GpuReader:
    """Reads one page again and again. `trouble` is told why nothing comes, and None when something does again."""

    def __init__(self, page: GpuPage, *, pod: str, fetcher: Fetcher, trouble: Callable[[str | None], None]) -> None:
        self._page = page
        self._pod = pod
        self._fetcher = fetcher
        self._trouble = trouble
        self._latest: GpuReading | None = None
        self._told: str | None = None

    async def run(self) -> None:
        """For ever."""
        while True:
            self._turned(await self._read())
            await asyncio.sleep(INTERVAL_SECONDS)

    def take(self) -> GpuReading:
        """The latest reading, once: each counts for one instant. Nothing is known where there is no new one."""
        latest, self._latest = self._latest, None
        return latest or GpuReading()

    async def _read(self) -> str | None:
        """Why it did not succeed; None: it did."""
        try:
            page = await self._fetcher.fetch(self._page.url, limit_bytes=MAX_PAGE_BYTES, timeout_seconds=PAGE_SECONDS)
            self._latest = gpu_reading(page, namespace=self._page.namespace, pod=self._pod)
        except FetchError as error:
            return f"the exporter's page can't be read: {error}"[:253]
        except UnreadablePage as error:
            return str(error)[:253]
        return None

    def _turned(self, why: str | None) -> None:
        if why == self._told:
            return
        self._told = why
        if why is not None:
            logger.info("GPUs of %s: %s", self._pod, why)
        self._trouble(why)
