"""A run as a shard takes part in it that is not the first.

read plan -> connect to the gate -> load tokenizer -> find data -> ready
import the load engine, write all prompts
at the gate before every stage -> our share of it -> our part to the gate
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchrun_client.contract import Plan, Stage
from benchrun_client.datasets.samples import Sample
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import BackgroundLoop, tls_context
from benchrun_client.ledger import Ledger
from benchrun_client.load.engine import Divided, LoadEngine
from benchrun_client.measuring import StageSender
from benchrun_client.recorder import Recorder, packed
from benchrun_client.records import RawStage
from benchrun_client.run import BaseRun, find_all, freeze_heap, read_plan, vllm_engine
from benchrun_client.search.probes import Ready
from benchrun_client.server.readiness import Servers
from benchrun_client.shards.member import Member
from benchrun_client.shards.messages import Ended, Offset
from benchrun_client.shards.sharing import Shard, share_of
from benchrun_client.traffic import digests_of, write_traffic

log = logging.getLogger(__name__)


class Following(StageSender):
    """One pass over the plan's stages, in step with shard 0. `hand_over` gets each part, None where there was no request."""

    def __init__(
        self,
        plan: Plan,
        engine: LoadEngine,
        servers: Servers,
        ledger: Ledger,
        *,
        shard: Shard,
        member: Member,
        background: BackgroundLoop,
        hand_over: Callable[[int, RawStage | None], None],
    ) -> None:
        super().__init__(plan, engine, servers, ledger)
        self._shard, self._member, self._background = shard, member, background
        self._hand_over = hand_over
        self._offset = Offset(0.0, 0.0)
        self._late = 0.0

    async def run(self, stages: Sequence[Sequence[Sample]], digests: Sequence[str]) -> None:
        """Take part in every stage; `stages`: the samples of all shards."""
        for sequence, (stage, samples, digest) in enumerate(zip(self._plan.stages, stages, digests, strict=True)):
            self._ledger.enter("Measuring", stage=stage.id)
            self._hand_over(sequence, await self._take_part(sequence, stage, Ready(samples, digest)))

    async def _take_part(self, sequence: int, stage: Stage, ready: Ready) -> RawStage | None:
        """Our requests. What is said of servers and of the run is shard 0's to say."""
        share = share_of(stage.load, requests=len(ready.samples), shard=self._shard)
        if not share.requests:
            await self._begin(sequence)
            await self._report_end(sequence, requests=0, succeeded=0, answered_at=None)
            return None
        divided = Divided(self._shard, share, begin=lambda: self._begin(sequence))
        raw, outcome = await self._send(sequence, stage, ready, divided=divided)
        await self._report_end(
            sequence,
            requests=len(share.requests),
            succeeded=outcome.instants.ok.count(True),
            answered_at=max(outcome.instants.answered) + self._offset.seconds,
        )
        return replace(raw, unix_minus_perf=self._offset.seconds)

    async def _begin(self, sequence: int) -> float:
        """Wait before a stage until all shards are ready; when it begins, by our clock."""
        self._offset = await self._background.call(self._member.offset())
        at = await self._background.call(self._member.ready(sequence, error_seconds=self._offset.error))
        start = at - self._offset.seconds
        await asyncio.sleep(start - time.perf_counter())
        self._late = time.perf_counter() - start
        return start

    async def _report_end(self, sequence: int, *, requests: int, succeeded: int, answered_at: float | None) -> None:
        message = Ended(
            sequence=sequence,
            requests=requests,
            succeeded=succeeded,
            began_late_seconds=self._late,
            answered_at=answered_at,
        )
        await self._background.call(self._member.send(message))


class ShardRun(BaseRun):
    """One run from plan to exit. Of its ledger only the progress is of use: records are shard 0's."""

    _member: Member | None = None

    def _measure(self) -> None:
        plan = read_plan(self._plan_path)
        shard = self._setup.shard
        self._member = member = Member(
            plan, shard=shard.number, address=self._setup.gate, answered=lambda: self._ledger.progress().requests_done
        )
        attending = self._watched(self._attend(member))
        siblings = [self._watched(self._run_sibling(number)) for number in self._setup.siblings]
        counter, material = find_all(plan)
        self._ledger.mark_ready()
        log.info("shard %d ready: plan, tokenizer and data found", shard.number)
        self._recorder = self._background.run(Recorder.start(lambda *_: None))
        engine = vllm_engine(plan, counter, tls=tls_context(plan.target.ca_file))
        traffic = write_traffic(plan, material, counter)
        digests = digests_of(traffic)
        freeze_heap()
        following = Following(
            plan,
            engine,
            self._background.run(member.target()),
            self._ledger,
            shard=shard,
            member=member,
            background=self._background,
            hand_over=self._hand_over,
        )
        asyncio.run(following.run(traffic.stages, digests))
        self._finish_recording()
        attending.result()
        for sibling in siblings:
            sibling.result()
        log.info("all stages measured")

    async def _attend(self, member: Member) -> None:
        await member.join()
        await member.listen()
        await member.close()

    def _sibling_failed(self, shard: int, code: int) -> None:
        raise RunFailure("ShardLost", f"the process of shard {shard} ended with code {code}; see its log")

    def _hand_over(self, sequence: int, raw: RawStage | None) -> None:
        stage = None if raw is None else packed(raw)
        self._recording.append(self._watched(self._hand_in(sequence, stage)))

    async def _hand_in(self, sequence: int, stage: bytes | None) -> None:
        assert self._recorder is not None
        assert self._member is not None
        part = None if stage is None else (await self._recorder.record(stage))[1]
        await self._member.hand_in(sequence, part)

    async def _say_goodbye(self, failure: RunFailure) -> None:
        if self._member is not None:
            await self._member.report(failure)
            await self._member.close()
