"""The story of one run as a shard tells it that is not the first."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from benchrun_client.contract import Plan, Stage
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Divided, Engine, Load, Outcome
from benchrun_client.failures import RunFailure, as_failure, tell
from benchrun_client.http_session import BackgroundLoop, tls_context
from benchrun_client.ledger import Ledger
from benchrun_client.measuring import digests_of
from benchrun_client.record_server import RecordServer
from benchrun_client.recorder import Recorder, packed
from benchrun_client.records import RawStage, scalars_of
from benchrun_client.run import end_process, find_all, read_plan, vllm_engine
from benchrun_client.self_watch import SelfWatch, Toll
from benchrun_client.shards.first import Company, run_sibling
from benchrun_client.shards.member import Member
from benchrun_client.shards.messages import Ended, Offset
from benchrun_client.shards.sharing import Place, Share, share_of
from benchrun_client.target import Servers
from benchrun_client.traffic import write_traffic

# ---- following --------------------------------------------------------------------------------------------------------
# What a shard does that is not the first: its share of every stage, when all begin.

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


# ---- shard run --------------------------------------------------------------------------------------------------------
# The story of one run as a shard tells it that is not the first.
#
# read plan -> knock at the gate -> load tokenizer -> find data -> ready
# import the load engine, write all prompts
# at the gate before every stage -> our share of it -> our part to the gate

log = logging.getLogger(__name__)


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
