"""Warm-ups, then every stage, back to back.

Between two stages the server idles, so as little as possible happens there: the closing snapshot, which is the next stage's
opening one, and a copy of the numbers into the recorder's pipe.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import aiohttp

from benchrun_client.cache_reset import reset_caches
from benchrun_client.canary import ask, words_of
from benchrun_client.contract import CacheReset, LoadPoint, Plan, Stage, Warmup
from benchrun_client.datasets.samples import Sample, prompts_digest
from benchrun_client.engine import Engine, Load, Outcome
from benchrun_client.failures import first_line
from benchrun_client.ledger import Ledger
from benchrun_client.lookout import Found
from benchrun_client.records import RawStage, micros, scalars_of
from benchrun_client.self_watch import SelfWatch, Toll
from benchrun_client.snapshot import Snapshot, take, take_idle, take_settled
from benchrun_client.traffic import Traffic

log = logging.getLogger(__name__)

DIAGNOSTIC_SECONDS = 10.0


class Measuring:
    """One pass over the plan with servers that are up."""

    def __init__(
        self,
        *,
        plan: Plan,
        digests: Sequence[str],
        traffic: Traffic,
        engine: Engine,
        found: Found,
        ledger: Ledger,
        session: aiohttp.ClientSession,
        hand_over: Callable[[RawStage], None],
    ) -> None:
        self._plan = plan
        self._plan_digest = plan.digest()
        self._digests = digests
        self._traffic = traffic
        self._engine = engine
        self._servers, self._identities = found.servers, found.identities
        self._last_answer = found.answered
        self._ledger = ledger
        self._session = session
        self._hand_over = hand_over

    async def run(self) -> None:
        """Warm up, measure every stage, hand each over as soon as it is measured."""
        if self._plan.warmups:
            await self._warm_up()
        before = await take(self._session, self._servers.metrics_urls)
        for sequence, stage in enumerate(self._plan.stages):
            self._ledger.enter("Measuring", stage=stage.id)
            reset = None
            if self._plan.cache_policy == "Reset":
                reset, before = await self._reset_caches(before)
            before = await self._measure(sequence, stage, before, reset)

    async def _warm_up(self) -> None:
        self._ledger.enter("WarmingUp")
        start = time.perf_counter()
        # How many successes the servers are to have counted is unknown after a warm-up cut short: idle is enough.
        before = await take(self._session, self._servers.metrics_urls)
        for warmup, samples in zip(self._plan.warmups, self._traffic.warmups, strict=True):
            await self._send_warmup(warmup, samples)
        self._last_answer = time.perf_counter()
        self._ledger.note(warmup_us=micros(self._last_answer - start))
        await take_settled(self._session, self._servers.metrics_urls, before=before, completed=0)

    async def _send_warmup(self, warmup: Warmup, samples: Sequence[Sample]) -> None:
        load = Load(
            samples=samples,
            seed=warmup.seed,
            point=LoadPoint(max_concurrency=warmup.concurrency),
            api=warmup.api,
            ignore_eos=True,
        )
        try:
            async with asyncio.timeout(warmup.max_seconds):
                outcome = await self._engine.run(load, self._servers)
        except TimeoutError:
            log.warning("warm-up of %s was cut short after %d s", warmup.workload, warmup.max_seconds)
            return
        if failed := outcome.instants.ok.count(False):
            log.warning("warm-up of %s: %d of %d requests failed", warmup.workload, failed, warmup.requests)

    async def _reset_caches(self, left: list[Snapshot | None]) -> tuple[CacheReset, list[Snapshot | None]]:
        """Empty the prefix caches; then the snapshot that the next stage begins with. `left`: what the last one ended with."""
        if any(snapshot is None or snapshot.running for snapshot in left):
            # vLLM refuses while a request holds a block: the last word of a warm-up cut short, say.
            await take_idle(self._session, self._servers.metrics_urls)
        reset = await reset_caches(self._session, self._servers.own_urls)
        return reset, await take(self._session, self._servers.metrics_urls)

    async def _measure(
        self, sequence: int, stage: Stage, before: list[Snapshot | None], reset: CacheReset | None
    ) -> list[Snapshot | None]:
        samples = self._traffic.stages[sequence]
        load = Load(samples=samples, seed=stage.seed, point=stage.load, api=stage.api, ignore_eos=stage.ignore_eos)
        watch = SelfWatch(requests=len(samples))

        def on_send() -> None:
            self._ledger.note(first_request_unix_us=micros(time.time()))
            watch.on_first_send()

        def on_answer() -> None:
            self._ledger.count_answer()
            watch.on_answer()

        outcome = await self._engine.run(load, self._servers, on_send=on_send, on_answer=on_answer)
        toll = watch.toll()
        ok = outcome.instants.ok
        after = await take_settled(self._session, self._servers.metrics_urls, before=before, completed=ok.count(True))
        raw = self._raw(
            sequence,
            stage,
            outcome,
            edges=(before, after),
            reset=reset,
            toll=toll,
            diagnostic=None if any(ok) else await self._diagnose(stage, samples[0]),
        )
        self._last_answer = max(outcome.instants.answered)
        self._hand_over(raw)
        if any(ok):
            return after
        # The diagnostic request is nobody's: the next stage's counters begin after it.
        return await take_settled(self._session, self._servers.metrics_urls, before=after, completed=0)

    async def _diagnose(self, stage: Stage, sample: Sample) -> str:
        """The server's own words about a request like those that failed; the engine keeps only reason phrases."""
        try:
            async with asyncio.timeout(DIAGNOSTIC_SECONDS):
                answer = await ask(
                    self._session,
                    self._servers.url,
                    api=stage.api,
                    model=self._plan.target.served_model,
                    prompt=sample.prompt,
                    output_tokens=sample.output_tokens,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return f"{type(error).__name__}: {first_line(error)}".rstrip(": ")
        return f"HTTP {answer.status}: {words_of(answer)}"

    def _raw(
        self,
        sequence: int,
        stage: Stage,
        outcome: Outcome,
        *,
        edges: tuple[list[Snapshot | None], list[Snapshot | None]],
        reset: CacheReset | None,
        toll: Toll,
        diagnostic: str | None,
    ) -> RawStage:
        result, instants = outcome.result, outcome.instants
        return RawStage(
            run_uid=self._plan.run_uid,
            plan_digest=self._plan_digest,
            sequence=sequence,
            stage_id=stage.id,
            prompts_digest=self._digests[sequence],
            engine=self._engine.name,
            scalars=scalars_of(result),
            due=instants.due,
            sent=instants.sent,
            answered=instants.answered,
            ok=instants.ok,
            ended=instants.ended,
            unix_minus_perf=time.time() - time.perf_counter(),
            previous_answer=self._last_answer,
            ttfts=result["ttfts"],
            itls=result["itls"],
            input_lens=result["input_lens"],
            output_lens=result["output_lens"],
            shared_prefix_tokens=self._traffic.shared_prefix_tokens.get(stage.api, 0),
            asked_lens=[sample.output_tokens for sample in self._traffic.stages[sequence]],
            errors=result["errors"],
            diagnostic=diagnostic,
            addresses=self._servers.addresses,
            before=_counters(edges[0]),
            after=_counters(edges[1]),
            versions=tuple(identity.version for identity in self._identities),
            settings=tuple(identity.settings for identity in self._identities),
            cache_reset=reset,
            cpu_seconds=toll.cpu_seconds,
            wall_seconds=toll.wall_seconds,
            throttled_periods=toll.throttled_periods,
            lags=toll.lags,
        )


def _counters(edge: Sequence[Snapshot | None]) -> tuple[dict[str, float] | None, ...]:
    return tuple(None if snapshot is None else snapshot.counters for snapshot in edge)


def digests_of(traffic: Traffic) -> list[str]:
    """The prompts digest of every stage, made beforehand: hashing megabytes has no place between stages."""
    return [prompts_digest(samples) for samples in traffic.stages]
