"""Warm-ups, then every stage, back to back: those that the plan lists, then those that searches choose.

Between two stages the server idles, so as little as possible happens there: the closing snapshot, which is the next stage's
opening one, and a copy of the numbers into the recorder's pipe.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import aiohttp

from benchrun_client.canary import ask, reset_caches, words_of
from benchrun_client.contract import CacheReset, LoadPoint, Plan, Probe, Search, Stage, Warmup, WarmupOutcome
from benchrun_client.datasets.samples import Sample, prompts_digest
from benchrun_client.engine import Instants, Load, LoadEngine, Outcome
from benchrun_client.failures import first_line
from benchrun_client.ledger import Ledger
from benchrun_client.records import RawStage, micros, scalars_of
from benchrun_client.search import course
from benchrun_client.search.course import Fared, fared, outcome_of
from benchrun_client.search.probes import Ready, Upcoming, stage_at
from benchrun_client.self_watch import SelfWatch, Toll
from benchrun_client.shards.first import Elsewhere, FirstShard
from benchrun_client.snapshot import Snapshot, take, take_idle, take_settled
from benchrun_client.target import Found
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
        engine: LoadEngine,
        found: Found,
        ledger: Ledger,
        session: aiohttp.ClientSession,
        hand_over: Callable[[RawStage], None],
        upcoming: Upcoming,
        shards: FirstShard | None = None,
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
        self._upcoming = upcoming
        self._shards = shards
        self._measured = 0
        self._left: list[Snapshot | None] = []
        """What the last stage left: the next one begins with it."""
        self._warmed_up: dict[str, WarmupOutcome] = {}
        """By workload, until it has been told."""

    async def run(self) -> None:
        """Warm up, measure every stage, hand each over as soon as it is measured."""
        if self._plan.warmups:
            await self._warm_up()
        self._left = await take(self._session, self._servers.metrics_urls)
        for stage, samples, digest in zip(self._plan.stages, self._traffic.stages, self._digests, strict=True):
            self._hand_over(await self._measure(stage, Ready(samples, digest)))
        for search in self._plan.searches:
            await self._search(search)

    async def _search(self, search: Search) -> None:
        """Measure one load after the other, each chosen by how the ones before fared."""
        here: course.Position | None = course.first(search)
        total: Fared | None = None
        while here is not None:
            stage = stage_at(search, here)
            ready = await self._upcoming.ready(stage)
            self._upcoming.foresee(search, here)
            raw = await self._measure(stage, ready)
            total = fared(search, raw) if total is None else total + fared(search, raw)
            outcome = outcome_of(search, total)
            following = course.after(search, here, outcome)
            value = course.spelled(here.value)
            log.info("%s at %s: %s", stage.id, value, outcome)
            self._hand_over(replace(raw, probe=Probe(value=value, ends_search=following is None)))
            if following is None or following.number != here.number:
                total = None
            here = following

    async def _warm_up(self) -> None:
        self._ledger.enter("WarmingUp")
        start = time.perf_counter()
        # How many successes the servers are to have counted is unknown after a warm-up cut short: idle is enough.
        before = await take(self._session, self._servers.metrics_urls)
        for warmup, samples in zip(self._plan.warmups, self._traffic.warmups, strict=True):
            self._warmed_up[warmup.workload] = await self._send_warmup(warmup, samples)
        self._last_answer = time.perf_counter()
        self._ledger.note(warmup_us=micros(self._last_answer - start))
        await take_settled(
            self._session, self._servers.metrics_urls, before=before, completed=0, answering=self._servers.answering
        )

    async def _send_warmup(self, warmup: Warmup, samples: Sequence[Sample]) -> WarmupOutcome:
        load = Load(
            samples=samples,
            seed=warmup.seed,
            point=LoadPoint(max_concurrency=warmup.concurrency),
            api=warmup.api,
            ignore_eos=True,
        )
        start = time.perf_counter()
        try:
            async with asyncio.timeout(warmup.max_seconds):
                await self._engine.run(load, self._servers)
        except TimeoutError:
            log.warning("warm-up of %s was cut short after %d s", warmup.workload, warmup.max_seconds)
        outcome = _outcome_of(warmup, self._engine.instants, seconds=time.perf_counter() - start)
        if outcome.failed:
            log.warning("warm-up of %s: %d of %d requests failed", warmup.workload, outcome.failed, warmup.requests)
        return outcome

    async def _reset_caches(self, left: list[Snapshot | None]) -> tuple[CacheReset, list[Snapshot | None]]:
        """Empty the prefix caches; then the snapshot that the next stage begins with. `left`: what the last one ended with."""
        if any(snapshot is None or snapshot.running for snapshot in left):
            # vLLM refuses while a request holds a block: the last word of a warm-up cut short, say.
            await take_idle(self._session, self._servers.metrics_urls)
        reset = await reset_caches(self._session, self._servers.own_urls)
        return reset, await take(self._session, self._servers.metrics_urls)

    async def _measure(self, stage: Stage, ready: Ready) -> RawStage:
        self._ledger.enter("Measuring", stage=stage.id)
        before, reset, samples = self._left, None, ready.samples
        if self._plan.cache_policy == "Reset":
            reset, before = await self._reset_caches(before)
        load = Load(
            samples=samples,
            seed=stage.seed,
            point=stage.load,
            api=stage.api,
            ignore_eos=stage.ignore_eos,
            divided=self._shards.divided(self._measured, stage) if self._shards is not None else None,
        )
        watch = SelfWatch(requests=len(load.own.samples))

        def on_send() -> None:
            self._ledger.note(first_request_unix_us=micros(time.time()))
            watch.on_first_send()

        def on_answer() -> None:
            self._ledger.count_answer()
            watch.on_answer()

        outcome = await self._engine.run(load, self._servers, on_send=on_send, on_answer=on_answer)
        toll = watch.toll()
        ok = outcome.instants.ok
        elsewhere = await self._elsewhere()
        any_ok = any(ok) or elsewhere.succeeded > 0
        after = await take_settled(
            self._session,
            self._servers.metrics_urls,
            before=before,
            completed=ok.count(True) + elsewhere.succeeded,
            answering=self._servers.answering,
        )
        raw = self._raw(
            stage,
            ready,
            outcome,
            own=load.own.samples,
            edges=(before, after),
            reset=reset,
            toll=toll,
            diagnostic=None if any_ok else await self._diagnose(stage, samples[0], outcome),
        )
        self._last_answer = max(*outcome.instants.answered, elsewhere.last_answer)
        self._measured += 1
        if not any_ok:
            # The diagnostic request is nobody's: the next stage's counters begin after it.
            after = await take_settled(
                self._session, self._servers.metrics_urls, before=after, completed=0, answering=self._servers.answering
            )
        self._left = after
        return raw

    async def _elsewhere(self) -> Elsewhere:
        if self._shards is None:
            return Elsewhere(succeeded=0, last_answer=0.0)
        return await self._shards.elsewhere(self._measured)

    async def _diagnose(self, stage: Stage, sample: Sample, outcome: Outcome) -> str:
        """The server's own words about a request like those that failed; the engine keeps only reason phrases."""
        if self._plan.target.offline:
            return str(outcome.result["errors"][0])
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
        stage: Stage,
        ready: Ready,
        outcome: Outcome,
        *,
        own: Sequence[Sample],
        edges: tuple[list[Snapshot | None], list[Snapshot | None]],
        reset: CacheReset | None,
        toll: Toll,
        diagnostic: str | None,
    ) -> RawStage:
        result, instants = outcome.result, outcome.instants
        return RawStage(
            run_uid=self._plan.run_uid,
            plan_digest=self._plan_digest,
            sequence=self._measured,
            stage_id=stage.id,
            prompts_digest=ready.digest,
            engine=self._engine.name,
            scalars=scalars_of(result),
            due=instants.due,
            sent=instants.sent,
            answered=instants.answered,
            ok=instants.ok,
            ended=instants.ended,
            unix_minus_perf=(
                time.time() - time.perf_counter() if self._shards is None else self._shards.unix_minus_perf
            ),
            previous_answer=self._last_answer,
            ttfts=result["ttfts"],
            itls=result["itls"],
            input_lens=result["input_lens"],
            output_lens=result["output_lens"],
            shared_prefix_tokens=self._traffic.shared_prefix_tokens.get(stage.api, 0),
            repeated_tokens=sum(sample.repeated_tokens for sample in own),
            datasets=self._traffic.datasets.get(stage.workload, ()),
            asked_lens=[sample.output_tokens for sample in own],
            errors=result["errors"],
            diagnostic=diagnostic,
            addresses=self._servers.addresses,
            roles=self._servers.page_roles,
            before=_counters(edges[0]),
            after=_counters(edges[1]),
            versions=tuple(identity.version for identity in self._identities),
            settings=tuple(identity.settings for identity in self._identities),
            models=tuple(identity.models for identity in self._identities),
            served=tuple(identity.served for identity in self._identities),
            cache_reset=reset,
            warmup=self._warmed_up.pop(stage.workload, None),
            cpu_seconds=toll.cpu_seconds,
            wall_seconds=toll.wall_seconds,
            throttled_periods=toll.throttled_periods,
            lags=toll.lags,
            decodes=result.get("decodes"),
        )


def _outcome_of(warmup: Warmup, instants: Instants, *, seconds: float) -> WarmupOutcome:
    """A request that had not ended when time was up is neither answered nor failed."""
    ended = sum(1 for answered in instants.answered if answered)
    ok = instants.ok.count(True)
    return WarmupOutcome(requests=warmup.requests, answered=ok, failed=ended - ok, took_us=micros(seconds))


def _counters(edge: Sequence[Snapshot | None]) -> tuple[dict[str, float] | None, ...]:
    return tuple(None if snapshot is None else snapshot.counters for snapshot in edge)


def digests_of(traffic: Traffic) -> list[str]:
    """The prompts digest of every stage, made beforehand: hashing megabytes has no place between stages."""
    return [prompts_digest(samples) for samples in traffic.stages]
