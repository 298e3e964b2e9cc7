"""Following one run's client: its records and progress, by long polls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from benchrun_client.contract import PLAN_FILE, Plan, Progress

from benchrun.api import names
from benchrun.decide.decision import PullTarget
from benchrun.effects.client_link import ClientLink, Exchanger, Pulled, Refused
from benchrun.effects.errors import ClusterError, Invalid
from benchrun.effects.kubernetes_api import Cluster, controller_uid
from benchrun.effects.scraper import FetchError
from benchrun.observe.views import Run
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 5.0
SILENT_AFTER = 6
"""Questions without an answer, one after the other, until the client counts as silent: 12 s at least."""
NO_NEWS_SECONDS = 1.0
"""Pause after an answer without news, which an honest client holds back by itself."""
NEXT_STAGE_SECONDS = 1.0
"""How late a new stage may be told: the record of the one before follows within this, and both are one status write."""


class Follower:
    """Follows one client. Calls `news` for each new record and each change of the progress."""

    def __init__(
        self,
        target: PullTarget,
        run: Run,
        memory: RunMemory,
        *,
        cluster: Cluster,
        exchanger: Exchanger,
        telemetry: Telemetry,
        news: Callable[[], None],
    ) -> None:
        self.target = target
        """May be replaced by one of the same client; what is asked for next moves with it."""
        self._run = run
        self._memory = memory
        self._cluster = cluster
        self._exchanger = exchanger
        self._telemetry = telemetry
        self._news = news
        self._link: ClientLink | None = None

    async def run(self) -> None:
        """Ask for ever; a client that does not answer is asked again, less and less often."""
        failures = 0
        while True:
            try:
                pause = await self._ask()
                failures = 0
            except (FetchError, ClusterError) as error:
                pause = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures, 10))
                failures += 1
                self._note_silence(isinstance(error, FetchError) and failures >= SILENT_AFTER)
                logger.log(logging.INFO if failures == 1 else logging.DEBUG, "client %s: %s", self.target.pod, error)
            except Refused as error:
                self._refuse(str(error))
                pause = LONGEST_RETRY_SECONDS
            await asyncio.sleep(pause)

    async def acknowledge(self, through: int) -> bool:
        """Tell the client that all records below `through` are stored."""
        try:
            return await (await self._linked()).acknowledge(through)
        except ClusterError:
            return False

    async def _ask(self) -> float:
        """Seconds to pause before the next question."""
        link = await self._linked()
        heard = self._memory.progress
        pulled = await link.pull(
            from_sequence=self._memory.next_sequence(self.target.from_sequence),
            seen_version=heard.version if heard is not None else -1,
        )
        self._note_silence(False)
        before = self._memory.progress
        if self._take(pulled):
            if pulled.arrivals or not _only_the_stage_changed(before, pulled.progress):
                self._news()
            else:
                asyncio.get_running_loop().call_later(NEXT_STAGE_SECONDS, self._news)
            return 0.0
        return LONGEST_RETRY_SECONDS if pulled.refused else NO_NEWS_SECONDS

    def _take(self, pulled: Pulled) -> bool:
        for reason in pulled.refused:
            self._refuse(reason)
        new = [arrival for arrival in pulled.arrivals if self._memory.take(arrival)]
        self._telemetry.records_taken(len(new))
        before, self._memory.progress = self._memory.progress, pulled.progress
        return bool(new) or before is None or before.version != pulled.progress.version

    def _note_silence(self, silent: bool) -> None:
        if silent != self._memory.client_silent:
            self._memory.client_silent = silent
            self._news()

    def _refuse(self, reason: str) -> None:
        logger.warning("client %s: %s", self.target.pod, reason)
        self._memory.refuse(reason)
        self._telemetry.record_refused()
        self._news()

    async def _linked(self) -> ClientLink:
        if self._link is None:
            self._link = ClientLink(
                self._exchanger,
                base_url=self.target.url,
                nonce=self.target.nonce,
                plan=await self._plan(),
            )
        return self._link

    async def _plan(self) -> Plan:
        """The plan that the client was given: what it sends is checked against it."""
        name = names.plan_name(self._run.name, self._run.uid)
        body = await self._cluster.get("ConfigMap", namespace=self._run.namespace, name=name)
        if controller_uid(body) != self._run.uid:
            raise Invalid(f"ConfigMap {name} is not of this run")
        try:
            return Plan.model_validate_json((body.get("data") or {})[PLAN_FILE])
        except (ValueError, KeyError) as error:
            raise Invalid(f"ConfigMap {name} holds no plan: {error}") from error


def _only_the_stage_changed(before: Progress | None, after: Progress) -> bool:
    moving = {"version": 0, "stage": None, "requests_done": 0}
    return before is not None and before.model_copy(update=moving) == after.model_copy(update=moving)
