"""One run from plan to exit, in a shard other than shard 0.

read plan -> connect to the gate -> load tokenizer -> find data -> ready
import the load engine, write all prompts
for every stage: wait at the gate -> send this shard's share -> give its part to the gate
"""

import asyncio
import logging
import time
from dataclasses import replace

from benchrun_client.access import access_to
from benchrun_client.contract import Stage
from benchrun_client.failures import RunFailure
from benchrun_client.load.vllm_benchmark import Begun, Divided
from benchrun_client.measuring import StageSender
from benchrun_client.model_cache import target_on_claim
from benchrun_client.record_process import RecordProcess, packed
from benchrun_client.run import (
    BaseRun,
    find_all,
    freeze_heap,
    read_plan,
    vllm_engine,
)
from benchrun_client.search.prompt_writer import StagePrompts
from benchrun_client.shards.first_shard import run_sibling
from benchrun_client.shards.gate_client import GateClient
from benchrun_client.shards.load_split import share_of
from benchrun_client.shards.messages import Ended, Offset, ShardPart
from benchrun_client.stage_record import RawStage
from benchrun_client.traffic import write_traffic

log = logging.getLogger(__name__)


class ShardRun(BaseRun):
    """One run from plan to exit, in a shard other than shard 0.

    Of its state only the progress is used, because shard 0 has the records.
    """

    _gate: GateClient | None = None
    _offset = Offset(0.0, 0.0)
    _late = 0.0

    def _measure(self) -> None:
        plan = read_plan(self._plan_path)
        shard = self._setup.shard
        self._gate = gate = GateClient(
            plan,
            shard=shard.number,
            address=self._setup.gate,
            answered=lambda: self._state.progress().requests_done,
        )

        async def stay_at_gate() -> None:
            await gate.join()
            await gate.listen()
            await gate.close()

        at_gate = self._watched(stay_at_gate())
        others = [
            self._watched(self._run_other(number))
            for number in self._setup.siblings
        ]
        target = target_on_claim(plan.target, self._state.show_model)
        counter, material = find_all(plan, target)
        self._preparation.end()
        self._state.ready = True
        log.info("shard %d ready: plan, tokenizer and data found", shard.number)
        self._record_process = self._background.run(RecordProcess.start())
        engine = vllm_engine(plan, counter, access=access_to(plan.target))
        traffic = write_traffic(plan, material, counter)
        prompts = [
            StagePrompts(*each)
            for each in zip(traffic.stages, traffic.digests, strict=True)
        ]
        freeze_heap()
        sender = StageSender(
            plan, engine, self._background.run(gate.target()), self._state
        )

        async def measure() -> None:
            for sequence, stage in enumerate(plan.stages):
                self._state.enter("Measuring", stage=stage.id)
                raw = await self._take_part(
                    gate, sender, sequence, stage, prompts[sequence]
                )
                part = None if raw is None else packed(raw)
                self._recording.append(
                    self._watched(self._hand_in(gate, sequence, part))
                )

        asyncio.run(measure())
        self._finish_recording()
        at_gate.result()
        for other in others:
            other.result()
        log.info("all stages measured")

    async def _run_other(self, shard: int) -> None:
        if code := await run_sibling(
            self._setup,
            shard,
            plan=self._plan_path,
            preparation=self._preparation,
        ):
            raise RunFailure(
                "ShardLost",
                f"the process of shard {shard} ended with code {code}; see its log",
            )

    async def _take_part(
        self,
        gate: GateClient,
        sender: StageSender,
        sequence: int,
        stage: Stage,
        prompts: StagePrompts,
    ) -> RawStage | None:
        """Send this shard's requests of a stage; return what was measured, None without requests.

        Shard 0 adds the values about the servers and the run.
        """
        share = share_of(
            stage.load, requests=len(prompts.samples), shard=self._setup.shard
        )
        raw = None
        succeeded = 0
        answered_at = None
        if share.requests:
            divided = Divided(
                self._setup.shard, share, begin=lambda: self._begin(gate, sequence)
            )
            raw = await sender.send(sequence, stage, prompts, divided=divided)
            raw = replace(raw, unix_minus_perf=self._offset.seconds)
            succeeded = raw.instants.ok.count(True)
            answered_at = max(raw.instants.answered) + self._offset.seconds
        else:
            await self._begin(gate, sequence)
        message = Ended(
            sequence=sequence,
            requests=len(share.requests),
            succeeded=succeeded,
            began_late_seconds=self._late,
            answered_at=answered_at,
        )
        await self._background.call(gate.send(message))
        return raw

    async def _begin(self, gate: GateClient, sequence: int) -> Begun:
        """Wait until all shards are ready for a stage; return when it begins, and its user gap.

        The instant is by this process's clock.
        """
        self._offset = await self._background.call(gate.offset())
        go = await self._background.call(
            gate.ready(sequence, error_seconds=self._offset.error)
        )
        start = go.at - self._offset.seconds
        await asyncio.sleep(start - time.perf_counter())
        self._late = time.perf_counter() - start
        return Begun(start, go.user_gap_seconds)

    async def _hand_in(
        self, gate: GateClient, sequence: int, stage: bytes | None
    ) -> None:
        part = None
        if stage is not None:
            (_, part), _ = await self._record_process.record(stage)
        await gate.send(ShardPart(sequence=sequence, packed=part))

    async def _before_end(self, failure: RunFailure) -> None:
        if self._gate is not None:
            await self._gate.report(failure)
            await self._gate.close()
