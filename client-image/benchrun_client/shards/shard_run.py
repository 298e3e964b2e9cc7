"""The story of one run as a shard tells it that is not the first.

read plan -> knock at the gate -> load tokenizer -> find data -> ready
import the load engine, write all prompts
at the gate before every stage -> our share of it -> our part to the gate
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from benchrun_client.background import BackgroundLoop
from benchrun_client.contract import Plan
from benchrun_client.failures import RunFailure, as_failure, tell
from benchrun_client.http_session import tls_context
from benchrun_client.ledger import Ledger
from benchrun_client.measuring import digests_of
from benchrun_client.plan_file import read_plan
from benchrun_client.record_server import RecordServer
from benchrun_client.recorder import Recorder, packed
from benchrun_client.records import RawStage
from benchrun_client.run import end_process, find_all, vllm_engine
from benchrun_client.shards.company import Company, run_sibling
from benchrun_client.shards.following import Following
from benchrun_client.shards.member import Member
from benchrun_client.traffic import write_traffic

log = logging.getLogger(__name__)
T = TypeVar("T")


class ShardRun:
    """One run from plan to exit. Of its ledger only the progress is of use: records are shard 0's."""

    def __init__(self, *, plan_path: Path, address: str, port: int, company: Company) -> None:
        self._plan_path = plan_path
        self._address, self._port = address, port
        self._company = company
        self._ledger = Ledger()
        self._background = BackgroundLoop()
        self._server = RecordServer(self._ledger)
        self._member: Member | None = None
        self._recorder: Recorder | None = None
        self._handing_in: list[Future[None]] = []

    def to_the_end(self) -> NoReturn:
        """Take part, and end the process; the only way out, in success and failure."""
        try:
            self._background.run(self._server.start(address=self._address, port=self._port))
            self._take_part()
        except Exception as error:
            self._background.run(self._end_failed(error))
        end_process(0)

    def _take_part(self) -> None:
        plan = read_plan(self._plan_path)
        self._member = member = self._member_of(plan)
        attending = self._watched(self._attend(member))
        siblings = [self._watched(self._keep(shard)) for shard in self._company.siblings]
        counter, material = find_all(plan)
        self._ledger.mark_ready()
        log.info("shard %d ready: plan, tokenizer and data found", self._company.place.shard)
        self._recorder = self._background.run(Recorder.start(lambda *_: None))
        engine = vllm_engine(plan, counter, tls=tls_context(plan.target.ca_file))
        traffic = write_traffic(plan, material, counter)
        digests = digests_of(traffic)
        gc.collect()
        gc.freeze()
        following = Following(
            plan=plan,
            place=self._company.place,
            engine=engine,
            servers=self._background.run(member.target()),
            member=member,
            background=self._background,
            ledger=self._ledger,
            hand_over=self._hand_over,
        )
        asyncio.run(following.run(traffic.stages, digests))
        for part in self._handing_in:
            part.result()
        self._background.run(self._recorder.stop())
        attending.result()
        for sibling in siblings:
            sibling.result()
        log.info("all stages measured")

    def _member_of(self, plan: Plan) -> Member:
        return Member(
            plan,
            shard=self._company.place.shard,
            address=self._company.gate,
            answered=lambda: self._ledger.progress().requests_done,
        )

    async def _attend(self, member: Member) -> None:
        await member.join()
        await member.listen()
        await member.close()

    async def _keep(self, shard: int) -> None:
        code = await run_sibling(self._company, shard, plan=self._plan_path)
        if code:
            raise RunFailure("ShardLost", f"the process of shard {shard} ended with code {code}; its log tells why")

    def _hand_over(self, sequence: int, raw: RawStage | None) -> None:
        stage = None if raw is None else packed(raw)
        self._handing_in.append(self._watched(self._hand_in(sequence, stage)))

    async def _hand_in(self, sequence: int, stage: bytes | None) -> None:
        assert self._recorder is not None
        assert self._member is not None
        packed_part = None if stage is None else (await self._recorder.record(stage))[1]
        await self._member.hand_in(sequence, packed_part)

    def _watched(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._background.watch(work, end_failed=self._end_failed)

    async def _end_failed(self, error: Exception) -> NoReturn:
        """Tell why, at the gate as well, and end the process. The first failure to get here counts."""
        failure = as_failure(error)
        if not self._ledger.fail(failure.to_message()):
            await asyncio.Event().wait()
        tell(failure, cause=error)
        if self._member is not None:
            await self._member.tell(failure)
            await self._member.close()
        end_process(failure.exit_code)
