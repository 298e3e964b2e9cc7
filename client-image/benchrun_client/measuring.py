"""Measuring a run: warm-ups, then the plan's stages back to back, then the stages of searches.

The server idles between two stages, so only two things happen there: a snapshot of its counters is
taken, which closes one stage and opens the next, and the numbers are copied into the pipe of the
process that makes records.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import aiohttp

from benchrun_client import contract
from benchrun_client.answer_schema import sampled
from benchrun_client.contract.sessions import Beginning
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.failures import type_and_text
from benchrun_client.http_session import NETWORK_ERRORS
from benchrun_client.load.client_cost import CostWatch
from benchrun_client.load.closed_loop import (
    AnswerTime,
    answer_time,
    gap_of,
    user_start,
)
from benchrun_client.load.vllm_benchmark import Divided, EngineCall, LoadEngine
from benchrun_client.run_progress import RunProgress
from benchrun_client.search import bisection, until_decided
from benchrun_client.search.load_results import LoadResult, load_result
from benchrun_client.search.prompt_writer import SearchPrompts, StagePrompts
from benchrun_client.server.cache_reset import reset_caches
from benchrun_client.server.counter_snapshots import (
    Snapshots,
    take,
    take_idle,
    take_settled,
)
from benchrun_client.server.first_request import complete, request_body, words_of
from benchrun_client.server.readiness import Found, Servers
from benchrun_client.server.round_trips import measure_round_trips
from benchrun_client.shards.first_shard import FirstShard
from benchrun_client.stage_record import RawStage, micros, scalars_of
from benchrun_client.traffic import Traffic

log = logging.getLogger(__name__)

DIAGNOSTIC_SECONDS = 10.0


class StageSender:
    """The sender of a stage's requests. Each of the client's processes (shards) has one."""

    def __init__(
        self,
        plan: contract.Plan,
        engine: LoadEngine,
        servers: Servers,
        state: RunProgress,
    ) -> None:
        self._plan = plan
        self._plan_digest = plan.digest()
        self._engine = engine
        self._servers = servers
        self._state = state

    async def send(
        self,
        sequence: int,
        stage: contract.Stage,
        prompts: StagePrompts,
        *,
        divided: Divided | None,
        user_gap_seconds: float | None = None,
        before_first_send: Callable[[], None] = lambda: None,
    ) -> RawStage:
        """Send a stage, or this shard's share of it, and return what was measured.

        The share must have at least one request. The caller must still set `unix_minus_perf`, the
        offset from the instants to Unix time.
        """

        def on_send() -> None:
            before_first_send()
            watch.on_first_send()

        def on_answer() -> None:
            self._state.count_answer()
            watch.on_answer()

        options = stage.seed, stage.load, stage.api, stage.ignore_eos
        call = EngineCall(
            prompts.samples,
            *options,
            divided,
            on_send,
            on_answer,
            sampling=stage.sampling,
            fields=stage.asked,
            user_gap_seconds=user_gap_seconds,
        )
        own = call.own.samples
        watch = CostWatch(requests=len(own))
        result = await self._engine.run(call, self._servers)
        instants = self._engine.instants
        planned = len(own)
        if instants.order is not None:
            own = [own[position] for position in instants.order]
        schema = stage.asked.answer_schema
        answers = (
            ()
            if schema is None
            else sampled(result["generated_texts"], instants.stopped, instants.ok)
        )
        return RawStage(
            run_uid=self._plan.run_uid,
            plan_digest=self._plan_digest,
            sequence=sequence,
            stage_id=stage.id,
            load=stage.load,
            prompts_digest=prompts.digest,
            engine=self._engine.name,
            scalars=scalars_of(result),
            instants=instants,
            unix_minus_perf=0.0,
            previous_answer=instants.sent[0],
            **{
                name: result[name]
                for name in ("ttfts", "itls", "input_lens", "output_lens", "errors")
            },
            decodes=result.get("decodes"),
            expected_lens=[sample.input_tokens for sample in own],
            requested_lens=[sample.output_tokens for sample in own],
            repeated_tokens=sum(sample.repeated_tokens for sample in own),
            repeated=[sample.repeated_tokens for sample in own],
            places=[sample.place for sample in own]
            if stage.load.sessions_at_once is not None
            else (),
            beginnings=[
                Beginning(sample.begins_like, sample.repeated_tokens)
                for sample in call.own.samples
                if sample.begins_like is not None
            ],
            lost_turns=planned - len(own),
            cost=watch.cost(),
            api=stage.api,
            sampling=stage.sampling,
            answer_schema=schema,
            answers=answers,
        )


class Measuring(StageSender):
    """Measures a whole plan on servers that are up, in shard 0 or the only process."""

    def __init__(
        self,
        plan: contract.Plan,
        engine: LoadEngine,
        found: Found,
        state: RunProgress,
        *,
        traffic: Traffic,
        session: aiohttp.ClientSession,
        hand_over: Callable[[RawStage], None],
        prompts: SearchPrompts,
        shards: FirstShard | None,
        hide: Callable[[str], str],
    ) -> None:
        super().__init__(plan, engine, found.servers, state)
        self._traffic = traffic
        self._prompts = prompts
        self._edges = found.edges
        self._last_answer = found.answered
        self._session = session
        self._hand_over = hand_over
        self._shards = shards
        self._hide = hide  # Takes secrets out of a server's words.
        where = session, found.servers.metrics_urls, found.servers.engine
        self._take = partial(take, *where)
        self._take_idle = partial(take_idle, *where)
        self._take_settled = partial(
            take_settled, *where, answering=found.servers.answering
        )
        self._measured = 0
        # Taken after the last stage: the next one begins with them.
        self._snapshots: Snapshots = ()
        self._warmed_up: dict[str, contract.WarmupOutcome] = {}
        """Workload -> outcome of its warm-up, until a record contains it."""
        self._round_trips: contract.RoundTrips | None = None
        # Of closed loops, by workload, in order of measuring; warm-ups first.
        self._answer_times = defaultdict[str, list[AnswerTime]](list)

    async def run(self) -> None:
        """Warm up, and measure every stage; hand over each stage as soon as it is measured."""
        self._began = time.perf_counter()
        if self._plan.warmups:
            await self._warm_up()
        # Once client and servers have run for a while: the first requests of a process are slow,
        # whatever the path.
        if not self._plan.target.offline:
            self._round_trips = await measure_round_trips(
                self._session, self._servers.urls, self._servers.engine
            )
        self._snapshots = await self._take()
        if self._plan.auto is not None:
            await self._until_decided(self._plan.auto)
            return
        for stage, samples, digest in zip(
            self._plan.stages,
            self._traffic.stages,
            self._traffic.digests,
            strict=True,
        ):
            self._hand_over(
                await self._measure(stage, StagePrompts(samples, digest))
            )
        for search in self._plan.searches:
            await self._search(search)

    async def _search(self, search: contract.SearchPlan) -> None:
        position: bisection.Position | None = bisection.first(search)
        results: list[LoadResult] = []
        while position is not None:
            stage = bisection.stage_at(search, position)
            prompts = await self._prompts.take(stage)
            self._prompts.write_ahead(bisection.may_follow(search, position))
            raw = await self._measure(stage, prompts)
            results = [
                *(results if position.repeat > 1 else []),
                load_result(stage.load, search.metrics, raw),
            ]
            outcome = bisection.outcome_of(search, position, results)
            following = bisection.after(search, position, outcome)
            log.info("%s at %s: %s", stage.id, stage.load.value, outcome)
            confirms = position.confirmation > 0
            probe = contract.Probe(ends_search=following is None, confirms=confirms)
            self._hand_over(replace(raw, probe=probe))
            position = following

    async def _until_decided(self, auto: contract.AutoPlan) -> None:
        """Measure repeat after repeat, until all load points are done or the budget ends."""
        stages = self._plan.stages
        results = defaultdict[str, list[LoadResult]](list)
        costs: dict[str, until_decided.StagesCost] = {}
        here: until_decided.LookPosition | None = until_decided.FIRST
        requests = 0
        while here is not None:
            stage = stages[here.number]
            load_point = contract.load_point_of(stage.id)
            prompts = await self._prompts.take(stage)
            began = self._seconds()
            spent = until_decided.StagesCost(requests, began)
            self._prompts.write_ahead(
                until_decided.may_follow(
                    auto, stages, here, spent=spent, costs=costs
                )
            )
            raw = await self._measure(stage, prompts)
            results[load_point].append(load_result(stage.load, auto.metrics, raw))
            requests += stage.requests
            done = until_decided.is_look(stage, here) and until_decided.is_done(
                auto, results[load_point]
            )
            costs[load_point] = until_decided.StagesCost(
                stage.requests, self._seconds() - began
            )
            log.info("%s: %s", stage.id, "done" if done else "goes on")
            here = until_decided.following(
                auto,
                stages,
                here,
                done=done,
                spent=until_decided.StagesCost(requests, self._seconds()),
                costs=costs,
            )
            probe = contract.Probe(ends_search=here is None)
            self._hand_over(replace(raw, probe=probe))

    def _seconds(self) -> float:
        """Return the seconds since the start of the warm-up."""
        return time.perf_counter() - self._began

    async def _warm_up(self) -> None:
        self._state.enter("WarmingUp")
        start = time.perf_counter()
        # How many successes the servers are to have counted is unknown after a warm-up cut short:
        # idle is enough.
        before = await self._take()
        for warmup, samples in zip(
            self._plan.warmups, self._traffic.warmups, strict=False
        ):
            self._warmed_up[warmup.workload] = await self._send_warmup(
                warmup, samples
            )
        self._last_answer = time.perf_counter()
        self._state.note("warmup_us", micros(self._last_answer - start))
        await self._take_settled(before=before, completed=0)

    async def _send_warmup(
        self, warmup: contract.WarmupPlan, samples: Sequence[PromptRequest]
    ) -> contract.WarmupOutcome:
        load = contract.UsersLoad(concurrency=warmup.concurrency)
        call = EngineCall(
            samples,
            warmup.seed,
            load,
            warmup.api,
            ignore_eos=warmup.warms_to_the_end,
            sampling=warmup.sampling,
            fields=warmup.asked,
        )
        start = time.perf_counter()
        try:
            async with asyncio.timeout(warmup.max_seconds):
                await self._engine.run(call, self._servers)
        except TimeoutError:
            log.warning(
                "warm-up of %s was cut short after %d s",
                warmup.workload,
                warmup.max_seconds,
            )
        took = time.perf_counter() - start
        instants = self._engine.instants
        # A request that had not ended when time was up is neither answered nor failed.
        ok = instants.ok.count(True)
        ended = sum(map(bool, instants.answered))
        self._note_answer_time(
            warmup.workload,
            answer_time(instants, users=warmup.concurrency, warmup=True),
        )
        if ended > ok:
            log.warning(
                "warm-up of %s: %d of %d requests failed",
                warmup.workload,
                ended - ok,
                warmup.requests,
            )
        counts = {
            "requests": warmup.requests,
            "concurrency": warmup.concurrency,
            "answered": ok,
            "failed": ended - ok,
        }
        return contract.WarmupOutcome(**counts, took_us=micros(took))

    def _note_answer_time(self, workload: str, found: AnswerTime | None) -> None:
        if found is not None:
            self._answer_times[workload].append(found)

    def _user_start(self, stage: contract.Stage) -> contract.UserStart | None:
        start = user_start(
            stage.load,
            requests=stage.requests,
            known=self._answer_times[stage.workload],
        )
        if start is not None and start.mode != stage.load.start_mode == "Spread":
            log.warning(
                "%s: users begin together: no answer time of this workload is known",
                stage.id,
            )
        return start

    async def _reset_caches(self) -> contract.CacheReset:
        """Empty the prefix caches, then take the snapshot that opens the next stage."""
        if any(
            snapshot is None or snapshot.running for snapshot in self._snapshots
        ):
            # vLLM refuses while a request holds a block: one of a warm-up cut short, say.
            await self._take_idle()
        reset = await reset_caches(
            self._session, self._servers.own_urls, self._servers.engine
        )
        self._snapshots = await self._take()
        return reset

    async def _send_test_request(
        self, stage: contract.Stage, sample: PromptRequest
    ) -> None:
        """Send the first prompt of a stage by itself.

        The stage's counters begin after this request, so no figure includes it. What it leaves in
        the prefix cache stays there for the stage.
        """
        call = EngineCall(
            [sample],
            stage.seed,
            contract.AtOnceLoad(),
            stage.api,
            stage.ignore_eos,
            sampling=stage.sampling,
            fields=stage.asked,
        )
        await self._engine.run(call, self._servers)
        answered = self._engine.instants.ok.count(True)
        if not answered:
            log.warning("%s: its test request failed", stage.id)
        self._last_answer = time.perf_counter()
        self._snapshots = await self._take_settled(
            before=self._snapshots, completed=answered * stage.asked.texts_a_request
        )

    async def _measure(
        self, stage: contract.Stage, prompts: StagePrompts
    ) -> RawStage:
        self._state.enter("Measuring", stage=stage.id)
        reset = (
            await self._reset_caches()
            if self._plan.cache_policy == "Reset"
            else None
        )
        if stage.test_request:
            await self._send_test_request(stage, prompts.samples[0])
        before = self._snapshots
        shards = self._shards
        start = self._user_start(stage)
        users = min(stage.load.cap or 0, stage.requests)
        gap = gap_of(start, users=users)
        divided = (
            shards.divided(self._measured, stage, user_gap_seconds=gap)
            if shards is not None
            else None
        )

        def on_first_send() -> None:
            self._state.note("first_request_unix_us", micros(time.time()))

        raw = await self.send(
            self._measured,
            stage,
            prompts,
            divided=divided,
            user_gap_seconds=gap,
            before_first_send=on_first_send,
        )
        if start is not None:
            self._note_answer_time(
                stage.workload, answer_time(raw.instants, users=users)
            )
        others, others_last = (
            (0, 0.0)
            if shards is None
            else await shards.others_result(self._measured, stage)
        )
        succeeded = raw.instants.ok.count(True) + others
        # A server counts every text of a request by itself.
        after = await self._take_settled(
            before=before, completed=succeeded * stage.asked.texts_a_request
        )
        raw = replace(
            raw,
            unix_minus_perf=time.time() - time.perf_counter()
            if shards is None
            else shards.unix_minus_perf,
            previous_answer=self._last_answer,
            shared_prefix_tokens=self._traffic.prefix_tokens(stage),
            datasets=self._traffic.datasets.get(stage.workload, ()),
            diagnostic=None
            if succeeded
            else await self._diagnose(stage, prompts.samples[0], raw),
            user_start=start,
            servers=tuple(
                edge.model_copy(
                    update={"before": b and b.counters, "after": a and a.counters}
                )
                for edge, b, a in zip(self._edges, before, after, strict=True)
            ),
            cache_reset=reset,
            warmup=self._warmed_up.pop(stage.workload, None),
            round_trips=self._round_trips,
            chat_template=self._traffic.chat_template,
            tokenizer_commit=self._traffic.tokenizer_commit,
        )
        self._last_answer = max(*raw.instants.answered, others_last)
        self._measured += 1
        # The diagnostic request belongs to no stage: the next stage's counters begin after it.
        self._snapshots = (
            after
            if succeeded
            else await self._take_settled(before=after, completed=0)
        )
        return raw

    async def _diagnose(
        self, stage: contract.Stage, sample: PromptRequest, raw: RawStage
    ) -> str:
        """Send a request like those that failed, and return the server's answer.

        Of failed requests the load engine keeps only the HTTP reason phrases.
        """
        if self._plan.target.offline:
            return raw.errors[0]
        body = request_body(
            stage.api,
            model=self._plan.target.served_model,
            prompt=sample.sent,
            max_tokens=sample.output_tokens,
            fields=stage.asked_body,
            ignore_eos=stage.ignore_eos,
        )
        return await answer_in_words(
            self._session,
            self._servers.urls[0],
            api=stage.api,
            body=body,
            hide=self._hide,
        )


async def answer_in_words(
    session: aiohttp.ClientSession,
    url: str,
    *,
    api: contract.Api,
    body: Mapping[str, Any],
    hide: Callable[[str], str],
) -> str:
    """Send a request and return its answer in words, from which `hide` removes the secrets."""
    try:
        async with asyncio.timeout(DIAGNOSTIC_SECONDS):
            found = await complete(session, url, api=api, body=body)
    except NETWORK_ERRORS as error:
        return type_and_text(error)
    if found.answer is not None:
        return f"HTTP {found.answer.status}: {hide(words_of(found.answer))}"
    if found.problem is not None:
        return f"HTTP 200: {hide(found.problem)}"
    if api in contract.WHOLE_ANSWERS:
        return "HTTP 200: an embedding"
    return f"HTTP 200: a stream of {found.tokens} tokens"
