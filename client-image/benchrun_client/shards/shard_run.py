"""One run from plan to exit, as a shard other than shard 0 goes through it.

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
from benchrun_client.load.engine import Divided, LoadEngine
from benchrun_client.measuring import StageSender
from benchrun_client.record_process import RecordProcess, packed
from benchrun_client.run import BaseRun, find_all, freeze_heap, read_plan, vllm_engine
from benchrun_client.run_state import RunState
from benchrun_client.search.probes import StagePrompts
from benchrun_client.server.waiting import Servers
from benchrun_client.shards.first_shard import run_sibling
from benchrun_client.shards.gate_client import GateClient
from benchrun_client.shards.load_split import Shard, share_of
from benchrun_client.shards.messages import Ended, Offset, Part
from benchrun_client.stage_record import RawStage
from benchrun_client.traffic import digests_of, write_traffic

log = logging.getLogger(__name__)


class ShardStages(StageSender):
    """One pass over the plan's stages, in step with shard 0. `hand_over` gets each part, None where it has no request."""

    def __init__(
        self,
        plan: Plan,
        engine: LoadEngine,
        servers: Servers,
        state: RunState,
        *,
        shard: Shard,
        gate: GateClient,
        background: BackgroundLoop,
        hand_over: Callable[[int, RawStage | None], None],
    ) -> None:
        super().__init__(plan, engine, servers, state)
        self._shard, self._gate, self._background = shard, gate, background
        self._hand_over = hand_over
        self._offset = Offset(0.0, 0.0)
        self._late = 0.0

    async def run(self, stages: Sequence[Sequence[Sample]], digests: Sequence[str]) -> None:
        """Take part in every stage; `stages`: the samples of all shards."""
        for sequence, (stage, samples, digest) in enumerate(zip(self._plan.stages, stages, digests, strict=True)):
            self._state.enter("Measuring", stage=stage.id)
            self._hand_over(sequence, await self._take_part(sequence, stage, StagePrompts(samples, digest)))

    async def _take_part(self, sequence: int, stage: Stage, prompts: StagePrompts) -> RawStage | None:
        """Our requests; shard 0 adds what concerns servers and the run."""
        share = share_of(stage.load, requests=len(prompts.samples), shard=self._shard)
        if not share.requests:
            await self._begin(sequence)
            await self._report_end(sequence, requests=0, succeeded=0, answered_at=None)
            return None
        divided = Divided(self._shard, share, begin=lambda: self._begin(sequence))
        raw, outcome = await self._send(sequence, stage, prompts, divided=divided)
        await self._report_end(
            sequence,
            requests=len(share.requests),
            succeeded=outcome.instants.ok.count(True),
            answered_at=max(outcome.instants.answered) + self._offset.seconds,
        )
        return replace(raw, unix_minus_perf=self._offset.seconds)

    async def _begin(self, sequence: int) -> float:
        """Wait before a stage until all shards are ready; when it begins, by our clock."""
        self._offset = await self._background.call(self._gate.offset())
        at = await self._background.call(self._gate.ready(sequence, error_seconds=self._offset.error))
        start = at - self._offset.seconds
        await asyncio.sleep(start - time.perf_counter())
        self._late = time.perf_counter() - start
        return start

    async def _report_end(self, sequence: int, *, requests: int, succeeded: int, answered_at: float | None) -> None:
        late = self._late
        message = Ended(
            sequence=sequence, requests=requests, succeeded=succeeded, began_late_seconds=late, answered_at=answered_at
        )
        await self._background.call(self._gate.send(message))


class ShardRun(BaseRun):
    """One run from plan to exit. Of its state only the progress is of use: records are shard 0's."""

    _gate: GateClient | None = None

    def _measure(self) -> None:
        plan = read_plan(self._plan_path)
        shard = self._setup.shard
        self._gate = gate = GateClient(
            plan, shard=shard.number, address=self._setup.gate, answered=lambda: self._state.progress().requests_done
        )

        async def stay_at_gate() -> None:
            await gate.join()
            await gate.listen()
            await gate.close()

        at_gate = self._watched(stay_at_gate())
        others = [self._watched(self._run_other(number)) for number in self._setup.siblings]
        counter, material = find_all(plan)
        self._state.ready = True
        log.info("shard %d ready: plan, tokenizer and data found", shard.number)
        self._record_process = self._background.run(RecordProcess.start())
        engine = vllm_engine(plan, counter, tls=tls_context(plan.target.ca_file))
        traffic = write_traffic(plan, material, counter)
        digests = digests_of(traffic)
        freeze_heap()
        stages = ShardStages(
            plan,
            engine,
            self._background.run(gate.target()),
            self._state,
            shard=shard,
            gate=gate,
            background=self._background,
            hand_over=self._hand_over,
        )
        asyncio.run(stages.run(traffic.stages, digests))
        self._finish_recording()
        at_gate.result()
        for other in others:
            other.result()
        log.info("all stages measured")

    async def _run_other(self, shard: int) -> None:
        if code := await run_sibling(self._setup, shard, plan=self._plan_path):
            raise RunFailure("ShardLost", f"the process of shard {shard} ended with code {code}; see its log")

    def _hand_over(self, sequence: int, raw: RawStage | None) -> None:
        stage = None if raw is None else packed(raw)
        self._recording.append(self._watched(self._hand_in(sequence, stage)))

    async def _hand_in(self, sequence: int, stage: bytes | None) -> None:
        assert self._gate is not None
        part = None
        if stage is not None:
            (_, part), _ = await self._record_process.record(stage)
        await self._gate.send(Part(sequence=sequence, packed=part))

    async def _before_end(self, failure: RunFailure) -> None:
        if self._gate is not None:
            await self._gate.report(failure)
            await self._gate.close()
