"""The profile: some seconds of load under the server's own profiler, after everything was measured.

No problem here ends the run: it is written into the record. Profiling has its own deadline.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from yarl import URL

from benchrun_client import contract
from benchrun_client.datasets.row_pools import PromptRequest, prompts_digest
from benchrun_client.engines import Profiler
from benchrun_client.failures import error_text, shorten, type_and_text
from benchrun_client.http_session import HttpAnswer, answer_of
from benchrun_client.load.vllm_benchmark import EngineCall, LoadEngine
from benchrun_client.server.first_request import words_of
from benchrun_client.server.readiness import Servers

FIRST_ANSWER_SECONDS = 5.0
"""Longest wait before the profile begins. It begins with the first answer, because some requests
then decode; if no answer comes within this time, it begins anyway."""
POLL_SECONDS = 0.01
STOP_SECONDS = 10.0
MAX_PROBLEM_CHARACTERS = 300

log = logging.getLogger(__name__)


@dataclass
class Profiling:
    """A profile of the first server."""

    plan: contract.ProfilePlan
    engine: LoadEngine
    servers: Servers
    samples: Sequence[PromptRequest]
    session: aiohttp.ClientSession
    _doing: str = ""
    _runs: bool = False

    async def record(
        self, plan: contract.Plan, *, sequence: int
    ) -> contract.StageRecord:
        """Take the profile and return its record; never raises."""
        begun = time.time()
        summary = None
        problem = None
        try:
            async with asyncio.timeout(self.plan.max_seconds):
                summary = await self._summary()
        except Exception as error:
            late = (
                f"not done within {self.plan.max_seconds} s"
                if isinstance(error, TimeoutError)
                else ""
            )
            problem = shorten(
                f"{self._doing}: {late or error_text(error)}",
                MAX_PROBLEM_CHARACTERS,
            )
            log.warning("no profile: %s", problem)
            await self._stop()
        load = self.plan.load
        return contract.StageRecord(
            run_uid=plan.run_uid,
            plan_digest=plan.digest(),
            sequence=sequence,
            stage_id=contract.PROFILE_STAGE,
            load=contract.UsersLoad(concurrency=load.concurrency),
            prompts_digest=prompts_digest(self.samples),
            engine=self.engine.name,
            first_send_unix_us=round(begun * 1e6),
            last_receive_unix_us=round(time.time() * 1e6),
            idle_before_us=0,
            scalars={},
            requests=contract.RequestColumns.model_validate(
                dict.fromkeys(contract.RequestColumns.model_fields, ())
            ),
            gaps=contract.GapCounts(),
            servers=(),
            errors={},
            client=contract.ClientFigures(cpu_seconds=0, wall_seconds=0),
            profile=contract.ProfileResult(
                workload=load.workload,
                concurrency=load.concurrency,
                summary=summary,
                problem=problem,
            ),
        )

    @property
    def _profiler(self) -> Profiler:
        """Return the profiler of the server's engine; raise ValueError if it has none."""
        engine = self.servers.engine
        if engine.profiler is None:
            raise ValueError(f"benchrun can't profile {engine.name}")
        return engine.profiler

    async def _summary(self) -> contract.TraceSummary:
        profiler = self._profiler
        load = self.plan.load
        servers = replace(self.servers, urls=self.servers.urls[:1])
        users = contract.UsersLoad(concurrency=load.concurrency)
        what = EngineCall(
            self.samples,
            load.seed,
            users,
            load.api,
            ignore_eos=load.warms_to_the_end,
            sampling=load.sampling,
            fields=load.asked,
        )
        sending = asyncio.create_task(self.engine.run(what, servers))
        try:
            await self._wait(
                sending,
                FIRST_ANSWER_SECONDS,
                lambda: any(self.engine.instants.answered),
            )
            self._runs = True
            await self._post(profiler.start_path)
            await self._wait(sending, self.plan.seconds, self._drains)
            await self._post(profiler.stop_path)
            self._runs = False
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if self.plan.reader_port is None:
            raise ValueError(
                "the profile was taken; its trace is on the endpoint's side"
            )
        url = (
            URL(self.servers.own_urls[0])
            .with_port(self.plan.reader_port)
            .with_path("/")
        )
        answer = await self._ask("GET", str(url))
        found = answer.json()
        if answer.status != 200:
            problem = (
                found.get("problem")
                if isinstance(found, dict)
                else f"{url} answered {answer.status}"
            )
            raise ValueError(
                f"{problem}; see the server's log: its disk may be full"
            )
        return contract.TraceSummary.model_validate(found)

    async def _wait(
        self,
        sending: asyncio.Task[dict[str, Any]],
        seconds: float,
        until: Callable[[], bool],
    ) -> None:
        self._doing = "sending requests"
        end = time.monotonic() + seconds
        while (
            not sending.done()
            and not until()
            and (left := end - time.monotonic()) > 0
        ):
            await asyncio.wait([sending], timeout=min(left, POLL_SECONDS))

    def _drains(self) -> bool:
        """Return whether all requests were sent and fewer than half as many as at full load remain.

        From then on the server does not have its load any more.
        """
        sent = len(self.engine.instants.sent)
        answered = sum(map(bool, self.engine.instants.answered))
        return sent == len(self.samples) and 2 * (sent - answered) < min(
            self.plan.load.concurrency, sent
        )

    async def _post(self, path: str) -> None:
        answer = await self._ask("POST", self.servers.own_urls[0] + path)
        if answer.status != 200:
            self._runs = path == self._profiler.stop_path
            remedy = f": {self._profiler.remedy}" if answer.status == 404 else ""
            raise ValueError(
                f"answered {answer.status}, {words_of(answer)}{remedy}"
            )

    async def _ask(self, method: str, url: str) -> HttpAnswer:
        self._doing = f"{method} {url}"
        # To write a trace takes longer than any other answer; the deadline of the whole ends it.
        timeout = aiohttp.ClientTimeout(total=self.plan.max_seconds)
        async with self.session.request(method, url, timeout=timeout) as response:
            return await answer_of(response)

    async def _stop(self) -> None:
        """Stop the profiler if it still runs: the server may be used by others later."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                if self._runs:
                    await self._post(self._profiler.stop_path)
        except Exception as error:
            log.warning("the profiler was not stopped: %s", type_and_text(error))
