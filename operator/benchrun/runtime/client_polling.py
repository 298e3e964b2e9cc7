"""Long polls of a run's client, for its records and its progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from benchrun.decide import Collected, PullTarget
from benchrun.effects import ClientRecords, Fetcher, FetchError, Pulled, Refused
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 5.0
SILENT_AFTER_SECONDS = 15.0
"""Without a good answer for so long the client counts as silent: deadlines no longer wait for it."""
MISMATCHED_AFTER = 3  # answers in a row that can't be used, until the run ends for it: 10 s at least
NO_NEWS_SECONDS = 1.0  # pause after an answer without news, which an honest client holds back by itself
BETWEEN_ANSWERS_SECONDS = 0.1  # least pause between two questions: a client may have news all the time
NEXT_STAGE_SECONDS = 1.0
"""How late a new stage may be shown: the record of the one before follows within this, and both are one status write."""


@dataclass(eq=False)
class ClientPoller:
    """Polls one client. Calls `news` for each new record and each change of the progress."""

    target: PullTarget  # may be replaced by one of the same client, with another first record
    collected: Collected
    _: KW_ONLY
    fetcher: Fetcher
    telemetry: Telemetry
    news: Callable[[], None]

    def __post_init__(self) -> None:
        self._records = ClientRecords(self.fetcher, self.target)
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

    async def acknowledge(self, through: int) -> bool:
        """Tell the client that all records below `through` are stored."""
        return await self._records.acknowledge(through)

    async def _poll(self) -> float:
        """Seconds to pause before the next poll."""
        if self.collected.backlog_is_full:
            return LONGEST_RETRY_SECONDS
        wanted = self.collected.next_sequence(self.target.from_sequence)
        progress = self.collected.client.progress
        try:
            seen = progress.version if progress is not None else -1
            pulled = await self._records.pull(from_sequence=wanted, seen_version=seen)
        except FetchError as error:
            self._failures += 1
            logger.log(logging.INFO if self._failures == 1 else logging.DEBUG, "client %s: %s", self.target.pod, error)
            return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(self._failures - 1, 10))
        except Refused as error:
            self._refuse(str(error))
            return LONGEST_RETRY_SECONDS
        self._failures, self._good_at = 0, asyncio.get_running_loop().time()
        return self._take(pulled, wanted)

    def _take(self, pulled: Pulled, wanted: int) -> float:
        """Keep what came; seconds to pause."""
        new = [arrival for arrival in pulled.arrivals if self.collected.take(arrival)]
        self.telemetry.records_taken(len(new))
        client = self.collected.client
        before, client.progress = client.progress, pulled.progress
        self._note_silence(False)
        changed = before is None or before.version != pulled.progress.version
        moving = {"version": 0, "stage": None, "requests_done": 0}
        is_small = False  # nothing but the stage and its requests
        if changed and before is not None:
            is_small = before.model_copy(update=moving) == pulled.progress.model_copy(update=moving)
        if new or (changed and not is_small):
            self.news()
        elif changed:
            asyncio.get_running_loop().call_later(NEXT_STAGE_SECONDS, self.news)
        if pulled.refused:
            self._refuse(pulled.refused[0], count=len(pulled.refused))
            return LONGEST_RETRY_SECONDS
        self._unusable = 0
        # The client has made the wanted record and does not have it: it was acknowledged.
        if pulled.progress.records > wanted and wanted not in self.collected.sequences:
            client.lost_record = wanted
            self.news()
        return BETWEEN_ANSWERS_SECONDS if new or changed else NO_NEWS_SECONDS

    async def _watch_silence(self) -> None:
        while True:
            await asyncio.sleep(SILENT_AFTER_SECONDS / 3)
            self._check_silence()

    def _check_silence(self) -> None:
        now = asyncio.get_running_loop().time()
        self._good_at = now if self._good_at is None else self._good_at
        self._note_silence(now - self._good_at >= SILENT_AFTER_SECONDS)

    def _note_silence(self, silent: bool) -> None:
        if silent != self.collected.client.silent:
            self.collected.client.silent = silent
            self.news()

    def _refuse(self, reason: str, *, count: int = 1) -> None:
        """Something in an answer can't be used. If that goes on, the run ends for it."""
        self._unusable += 1
        logger.log(logging.WARNING if self._unusable == 1 else logging.DEBUG, "client %s: %s", self.target.pod, reason)
        self.telemetry.records_refused(count)
        if self._unusable >= MISMATCHED_AFTER:
            self.collected.client.mismatch = reason
            self.news()
