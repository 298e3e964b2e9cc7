"""What a shard does that is not the first: its share of every stage, when all begin."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from benchrun_client.background import BackgroundLoop
from benchrun_client.contract import Plan, Stage
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Divided, Engine, Load, Outcome
from benchrun_client.ledger import Ledger
from benchrun_client.records import RawStage, scalars_of
from benchrun_client.self_watch import SelfWatch, Toll
from benchrun_client.shards.clock import Offset
from benchrun_client.shards.member import Member
from benchrun_client.shards.messages import Ended
from benchrun_client.shards.sharing import Place, Share, share_of
from benchrun_client.target import Servers

T = TypeVar("T")


class Following:
    """One pass over the plan's stages, in step with shard 0. `hand_over` gets each part, None where there was no request."""

    def __init__(
        self,
        *,
        plan: Plan,
        place: Place,
        engine: Engine,
        servers: Servers,
        member: Member,
        background: BackgroundLoop,
        ledger: Ledger,
        hand_over: Callable[[int, RawStage | None], None],
    ) -> None:
        self._plan, self._plan_digest = plan, plan.digest()
        self._place = place
        self._engine, self._servers = engine, servers
        self._member, self._background = member, background
        self._ledger = ledger
        self._hand_over = hand_over
        self._offset = Offset(0.0, 0.0)
        self._late = 0.0

    async def run(self, stages: Sequence[Sequence[Sample]], digests: Sequence[str]) -> None:
        """Take part in every stage; `stages`: the samples of all shards."""
        for sequence, (stage, samples, digest) in enumerate(zip(self._plan.stages, stages, digests, strict=True)):
            self._ledger.enter("Measuring", stage=stage.id)
            share = share_of(stage.load, requests=len(samples), place=self._place)
            if share.requests:
                await self._take_part(sequence, stage, share, samples=samples, digest=digest)
            else:
                await self._begin(sequence)
                await self._tell_end(sequence, requests=0, succeeded=0, answered=None)
                self._hand_over(sequence, None)

    async def _take_part(
        self, sequence: int, stage: Stage, share: Share, *, samples: Sequence[Sample], digest: str
    ) -> None:
        load = Load(
            samples=samples,
            seed=stage.seed,
            point=stage.load,
            api=stage.api,
            ignore_eos=stage.ignore_eos,
            divided=Divided(place=self._place, share=share, begin=lambda: self._begin(sequence)),
        )
        own = load.own.samples
        watch = SelfWatch(requests=len(own))

        def on_answer() -> None:
            self._ledger.count_answer()
            watch.on_answer()

        outcome = await self._engine.run(load, self._servers, on_send=watch.on_first_send, on_answer=on_answer)
        toll, instants = watch.toll(), outcome.instants
        answered = max(instants.answered)
        await self._tell_end(sequence, requests=len(own), succeeded=instants.ok.count(True), answered=answered)
        self._hand_over(sequence, self._part(sequence, stage, outcome, own=own, digest=digest, toll=toll))

    async def _begin(self, sequence: int) -> float:
        """Stand before a stage until all do; when it begins, by our clock."""
        self._offset = await self._at_gate(self._member.offset())
        at = await self._at_gate(self._member.ready(sequence, error_seconds=self._offset.error))
        start = at - self._offset.seconds
        await asyncio.sleep(start - time.perf_counter())
        self._late = time.perf_counter() - start
        return start

    async def _tell_end(self, sequence: int, *, requests: int, succeeded: int, answered: float | None) -> None:
        word = Ended(
            sequence=sequence,
            requests=requests,
            succeeded=succeeded,
            began_late_seconds=self._late,
            answered_at=None if answered is None else answered + self._offset.seconds,
        )
        await self._at_gate(self._member.ended(word))

    def _part(
        self, sequence: int, stage: Stage, outcome: Outcome, *, own: Sequence[Sample], digest: str, toll: Toll
    ) -> RawStage:
        """Our requests. What is said of servers and of the run is shard 0's to say."""
        result, instants = outcome.result, outcome.instants
        return RawStage(
            run_uid=self._plan.run_uid,
            plan_digest=self._plan_digest,
            sequence=sequence,
            stage_id=stage.id,
            prompts_digest=digest,
            engine=self._engine.name,
            scalars=scalars_of(result),
            due=instants.due,
            sent=instants.sent,
            answered=instants.answered,
            ok=instants.ok,
            ended=instants.ended,
            unix_minus_perf=self._offset.seconds,
            previous_answer=instants.sent[0],
            ttfts=result["ttfts"],
            itls=result["itls"],
            input_lens=result["input_lens"],
            output_lens=result["output_lens"],
            asked_lens=[sample.output_tokens for sample in own],
            shared_prefix_tokens=0,
            repeated_tokens=sum(sample.repeated_tokens for sample in own),
            datasets=(),
            errors=result["errors"],
            diagnostic=None,
            addresses=(),
            roles=(),
            before=(),
            after=(),
            versions=(),
            settings=(),
            models=(),
            served=(),
            cache_reset=None,
            warmup=None,
            cpu_seconds=toll.cpu_seconds,
            wall_seconds=toll.wall_seconds,
            throttled_periods=toll.throttled_periods,
            lags=toll.lags,
        )

    async def _at_gate(self, work: Coroutine[Any, Any, T]) -> T:
        """The connection lives in another thread's event loop."""
        return await asyncio.wrap_future(self._background.start(work))
