"""A stage of sessions, played on a clock that only waiting moves.

The client's own schedule hands out the turns, and the simulated server's own scheduler and cache
answer them. Only the wire between them and the load engine are left out. So a stage takes a
fraction of a second, and what is wrong with it is known to the last token.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from benchrun.api import BenchmarkRunSpec, ServerStatus
from benchrun.judge.results import Judged, results
from benchrun.plan import Owner, load_points, plan_of_client
from benchrun_client.contract import (
    GREEDY,
    LoadEngineVersion,
    ServedModel,
    ServerEdge,
    Stage,
    StageRecord,
    digest_of_token,
)
from benchrun_client.contract.datasets import SessionsData
from benchrun_client.contract.sessions import (
    Beginning,
    NewTokens,
    Session,
    TurnPlace,
)
from benchrun_client.datasets.sessions import drawn_sessions
from benchrun_client.load.session_schedule import SessionSchedule
from benchrun_client.stage_record import ClientCost, Instants, RawStage, record_of
from benchrun_simulator.pace import Pace, Timing
from benchrun_simulator.prefix_cache import KvCache
from benchrun_simulator.scheduler import Scheduler
from benchrun_simulator.sequence import Sequence

from sessions_kit.jumping_loop import JumpingLoop

BLOCK_TOKENS = 16
TOKENS_OF_A_TURN = 1_000_000  # Numbers of the tokens that each turn may add.
PACE = Timing(
    first_token_seconds=0.02,
    prefill_seconds_per_token=0.0004,
    per_token_seconds=0.01,
)
FAILS_AFTER_SECONDS = 0.02
DRAWN: Mapping[str, Any] = {
    "turns": {"mean": 5, "stdev": 2, "min": 2, "max": 8},
    "systemTokens": 200,
    "firstTokens": {"mean": 200, "stdev": 80, "min": 50, "max": 400},
    "turnTokens": {"mean": 100, "stdev": 50, "min": 10, "max": 200},
    "outputTokens": {"mean": 30, "stdev": 10, "min": 4, "max": 60},
    "pauseSeconds": {"mean": "0.3"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A stage of sessions, and what goes wrong in it."""

    seed: int = 1
    turns: int = 600
    at_once: int = 6
    kv_tokens: int = 100_000
    servers: int = 1
    """Turns take turns over so many servers, whatever these have in their caches."""
    failed_percent: float = 0.0  # Of the turns.
    answer_percent: float = 100.0  # Of the tokens asked for.
    again_percent: float = 0.0
    """Of the prompts, which the server gets with half of themselves once more."""
    broken_percent: float = 0.0
    """Of the prompts, which begin otherwise for the server, as by a date in the chat template."""
    late_ms: float = 0.0  # So late the client sends a turn that is due.

    def spec(self) -> BenchmarkRunSpec:
        """Return the spec of a run that has this stage alone."""
        return BenchmarkRunSpec.model_validate(
            {
                "model": {
                    "name": "tiny",
                    "source": {"path": {"path": "/models/tiny"}},
                },
                "endpoint": {"url": "http://server:8000"},
                "workloads": [
                    {
                        "name": "agents",
                        "dataset": {"sessions": {"synthetic": DRAWN}},
                        "load": {"sessions": [self.at_once]},
                        "requests": self.turns,
                    }
                ],
                "measurement": {"seed": self.seed, "warmup": {"none": {}}},
            }
        )


class Prompt(NamedTuple):
    """A turn of the stage, as its server would see it."""

    tokens: list[int]
    output_tokens: int
    place: TurnPlace
    beginning: Beginning


@dataclass(frozen=True, slots=True)
class Played:
    """A stage that was played, and what the judge says of it."""

    record: StageRecord
    judged: Judged


def play(course: Course) -> Played:
    """Play a stage and judge it."""
    spec = course.spec()
    owner = Owner(namespace="lab", name="lab", uid="lab")
    plan = plan_of_client(owner, spec, token_digest=digest_of_token("a" * 64))
    stage = plan.stages[0]
    loop = JumpingLoop()
    try:
        record = loop.run_until_complete(_Stage(course, stage, loop).record())
    finally:
        loop.close()
    server = ServerStatus(
        role="server",
        engine="VLLM",
        kv_cache_tokens=course.kv_tokens,
        reported={"block_size": str(BLOCK_TOKENS)},
    )
    judged = results(load_points(spec), [record], [], spec=spec, servers=[server])
    return Played(record, judged)


def prompts_of(data: SessionsData, *, seed: int, turns: int) -> list[Prompt]:
    """Return the turns of drawn sessions, the last of which is cut."""
    made: list[Prompt] = []
    for number, session in enumerate(drawn_sessions(data, seed=seed, most=turns)):
        made += _turns_of(session, number, at=len(made))
        if len(made) >= turns:
            break
    return made[:turns]


def _turns_of(session: Session, number: int, *, at: int) -> list[Prompt]:
    made: list[Prompt] = []
    for place, turn in enumerate(session.turns):
        adds = turn.adds
        assert isinstance(adds, NewTokens), "drawn sessions have lengths only"
        own = TOKENS_OF_A_TURN * (1 + at + place)
        # What was recorded as the answer is new to the server, like the rest.
        answer = made[-1].output_tokens if made else 0
        new = adds.tokens - adds.shared_count + answer
        history = made[-1].tokens if made else list(range(adds.shared_count))
        like = at + place - 1 if made else 0
        known = len(history) if at + place else 0
        made.append(
            Prompt(
                [*history, *range(own, own + new)],
                turn.output_tokens or 1,
                TurnPlace(
                    number,
                    place + 1,
                    (at + place - 1,) if place else (),
                    turn.delay_seconds,
                ),
                Beginning(like, known),
            )
        )
    return made


class _Server:
    """The simulated server's scheduler and cache, without its HTTP."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, kv_tokens: int) -> None:
        cache = KvCache(blocks=kv_tokens // BLOCK_TOKENS, block_size=BLOCK_TOKENS)
        self.scheduler = Scheduler(pace=Pace(PACE), cache=cache, max_sequences=256)
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._answers: dict[Sequence, tuple[list[float], asyncio.Future[None]]] = {}
        self.prompt_tokens = 0
        self.first_seconds = 0.0
        self.answered = 0
        self.generated = 0

    async def answer(self, sequence: Sequence) -> list[float]:
        """Return the instants of the tokens, once the last one is there."""
        instants: list[float] = []
        ended = self._loop.create_future()
        self._answers[sequence] = instants, ended
        self.scheduler.submit(sequence, now=self._loop.time())
        self._arm()
        await ended
        self.answered += 1
        self.prompt_tokens += len(sequence.prompt)
        self.first_seconds += instants[0] - sequence.arrived_at
        self.generated += len(instants)
        return instants

    def edge(self, number: int) -> ServerEdge:
        """Return the counters before and after all that was sent."""
        totals = self.scheduler.totals
        after = {
            "prefix_cache_queries_total": totals.prefix_queries,
            "prefix_cache_hits_total": totals.prefix_hits,
            "prompt_tokens_total": self.prompt_tokens,
            "generation_tokens_total": self.generated,
            "request_success_total": self.answered,
            "finished_length_total": self.answered,
            "num_preemptions_total": totals.preemptions,
            "time_to_first_token_seconds_sum": self.first_seconds,
            "time_to_first_token_seconds_count": self.answered,
        }
        return ServerEdge(
            address=f"10.0.0.{number}:8000",
            before=dict.fromkeys(after, 0.0),
            after={name: float(value) for name, value in after.items()},
            served=ServedModel(id="tiny"),
        )

    def _arm(self) -> None:
        due = self.scheduler.next_due()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = (
            None if due is None else self._loop.call_at(due, self._deliver, due)
        )

    def _deliver(self, due: float) -> None:
        now = max(due, self._loop.time())
        for sequence, at in self.scheduler.advance(now):
            instants, ended = self._answers[sequence]
            instants.append(at)
            if sequence.finished:
                del self._answers[sequence]
                ended.set_result(None)
        self._arm()


class _Stage:
    """One stage while it is played."""

    def __init__(
        self, course: Course, stage: Stage, loop: asyncio.AbstractEventLoop
    ) -> None:
        assert isinstance(stage.data, SessionsData)
        self._course = course
        self._stage = stage
        self._loop = loop
        self._prompts = prompts_of(
            stage.data, seed=stage.seed, turns=stage.requests
        )
        self._rng = random.Random(course.seed)
        each_holds = course.kv_tokens
        self._servers = [
            _Server(loop, kv_tokens=each_holds) for _ in range(course.servers)
        ]
        self._schedule = SessionSchedule(
            [each.place for each in self._prompts],
            sessions_at_once=course.at_once,
            clock=loop.time,
        )
        self._instants = Instants(order=self._schedule.order)
        self._tokens: dict[int, list[float]] = {}

    async def record(self) -> StageRecord:
        """Send all turns, and return what the client would have recorded."""
        number = 0
        async with asyncio.TaskGroup() as answers:
            async for due in self._schedule.turns():
                self._note(due.at)
                answers.create_task(self._ask(number, due.position))
                number += 1
        return record_of(self._raw())

    def _note(self, due: float) -> None:
        of = self._instants
        of.due.append(due)
        for each in (of.sent, of.answered):
            each.append(0.0)
        for flag in (of.ok, of.ended):
            flag.append(False)

    async def _ask(self, number: int, position: int) -> None:
        course, of = self._course, self._instants
        fails, again, broken = (
            self._rng.uniform(0, 100) < percent
            for percent in (
                course.failed_percent,
                course.again_percent,
                course.broken_percent,
            )
        )
        await asyncio.sleep(course.late_ms / 1000)
        of.sent[number] = self._loop.time()
        if fails:
            await asyncio.sleep(FAILS_AFTER_SECONDS)
        else:
            await self._answered(number, position, again=again, broken=broken)
        of.answered[number] = self._loop.time()
        of.ok[number] = of.ended[number] = not fails
        self._schedule.answered(number, ok=not fails)

    async def _answered(
        self, number: int, position: int, *, again: bool, broken: bool
    ) -> None:
        prompt = self._prompts[position]
        tokens = prompt.tokens
        if again:
            tokens = [*tokens[: len(tokens) // 2], *tokens]
        count = round(prompt.output_tokens * self._course.answer_percent / 100)
        sequence = Sequence(
            prompt=tokens,
            output=[-1 - position] * max(count, 1),
            arrived_at=self._loop.time(),
            number=number + 1,
            salt=str(number) if broken else "",
        )
        server = self._servers[number % len(self._servers)]
        self._tokens[number] = await server.answer(sequence)
        self._instants.cached[number] = len(tokens), sequence.cached_tokens

    def _raw(self) -> RawStage:
        of, stage = self._instants, self._stage
        sent = [self._prompts[position] for position in self._schedule.order]
        every = [self._tokens.get(number, []) for number in range(len(sent))]
        wall = max(of.answered) - min(of.sent)
        return RawStage(
            run_uid="lab",
            plan_digest="a" * 64,
            sequence=0,
            stage_id=stage.id,
            load=stage.load,
            prompts_digest="b" * 64,
            engine=LoadEngineVersion(name="played", version="1", trust_env=False),
            scalars={},
            instants=of,
            unix_minus_perf=1_000_000.0,
            previous_answer=0.0,
            ttfts=[
                at[0] - begun if at else 0.0
                for at, begun in zip(every, of.sent, strict=True)
            ],
            itls=[[b - a for a, b in pairwise(at)] for at in every],
            input_lens=[
                of.cached[number][0] if number in of.cached else len(each.tokens)
                for number, each in enumerate(sent)
            ],
            expected_lens=[len(each.tokens) for each in sent],
            output_lens=[len(at) for at in every],
            requested_lens=[each.output_tokens for each in sent],
            repeated_tokens=sum(each.beginning.tokens for each in sent),
            repeated=[each.beginning.tokens for each in sent],
            errors=["" if ok else "Internal Server Error" for ok in of.ok],
            cost=ClientCost(
                cpu_seconds=wall / 10,
                wall_seconds=wall,
                throttled_periods=0,
                lags=[0.0002] * 100,
            ),
            api=stage.api,
            sampling=GREEDY,
            places=[each.place for each in sent],
            beginnings=[each.beginning for each in self._prompts],
            lost_turns=len(self._prompts) - len(sent),
            servers=tuple(
                each.edge(number) for number, each in enumerate(self._servers)
            ),
        )


def clean_twin(course: Course) -> Course:
    """Return the same stage without anything that goes wrong."""
    return replace(Course(), seed=course.seed, at_once=course.at_once)
