"""Shards at the gate: who is let in, when all go, and what becomes of one that is lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from benchrun_client.contract import Plan, seal
from benchrun_client.engines import ENGINES
from benchrun_client.failures import RunFailure
from benchrun_client.server.readiness import Servers
from benchrun_client.shards import messages
from benchrun_client.shards.gate_client import GateClient
from benchrun_client.shards.gate_server import GateServer
from benchrun_client.shards.messages import GATE_PATH, ClockAnswer, Ended, offset_of
from benchrun_client.stage_record import record_of
from hypothesis import given, strategies as st
from unit.client.plans import TOKEN, TOKEN_DIGEST, plan, raw_stage
from unit.golden_messages import golden

VLLM = ENGINES["VLLM"]

PLAN = plan()
SERVERS = Servers(
    VLLM, ("http://10.0.0.1:8000",), ("http://10.0.0.1:8000/metrics",)
)
STAGE = "chat/concurrency=2/r1"


class Meeting:
    """An open gate and who comes to it."""

    def __init__(self, shards: int) -> None:
        self.heard_of_seven = asyncio.Event()
        self.gate = GateServer(PLAN, shards=shards, on_answers=self._hear)
        self.port = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self.members: list[GateClient] = []

    def _hear(self, answers: int) -> None:
        if answers == 7:
            self.heard_of_seven.set()

    async def member(
        self, shard: int, *, plan: Plan = PLAN, answered: int = 0
    ) -> GateClient:
        member = GateClient(
            plan,
            shard=shard,
            address=f"127.0.0.1:{self.port}",
            answered=lambda: answered,
        )
        self.members.append(member)
        await member.join()
        self.begin(member.listen())
        return member

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task


@asynccontextmanager
async def meeting(shards: int) -> AsyncIterator[Meeting]:
    here = Meeting(shards)
    here.port = await here.gate.start(address="127.0.0.1", port=0)
    try:
        yield here
    finally:
        for task in here.tasks:
            task.cancel()
        await asyncio.gather(*here.tasks, return_exceptions=True)
        for member in here.members:
            await member.close()
        await here.gate.close()


def ended(shard: int) -> Ended:
    return Ended(
        sequence=0,
        requests=3,
        succeeded=shard,
        began_late_seconds=0.001 * shard,
        answered_at=5.0,
    )


async def test_all_wait_before_a_stage_and_get_one_instant() -> None:
    async with meeting(3) as here:
        members = [await here.member(shard) for shard in (1, 2)]
        opened = here.begin(here.gate.open(0, STAGE, user_gap_seconds=0.25))
        first = here.begin(members[0].ready(0, error_seconds=0.0))
        done, _ = await asyncio.wait([opened, first], timeout=0.3)
        assert not done, "one of two is not all"
        second = here.begin(members[1].ready(0, error_seconds=0.25))
        at = (await opened).at
        assert [(await each).at for each in (first, second)] == [at, at]
        # All users are told how far apart they begin, over all shards.
        assert [(await each).user_gap_seconds for each in (first, second)] == [
            0.25,
            0.25,
        ]
        assert (await opened).error_seconds == 0.25
        # Far enough ahead for whoever knows the time worst.
        assert at > time.perf_counter() + here.gate.unix_minus_perf + 0.5


async def test_a_shard_learns_the_gates_clock_and_the_servers() -> None:
    async with meeting(2) as here:
        member = await here.member(1)
        offset = await member.offset()
        assert abs(offset.seconds - here.gate.unix_minus_perf) <= offset.error
        query = here.begin(member.target())
        await here.gate.send_target(SERVERS)
        assert (await query).urls == SERVERS.urls


async def test_later_listeners_get_the_found_servers() -> None:
    async with meeting(2) as here:
        await here.gate.send_target(SERVERS)
        assert (await (await here.member(1)).target()).urls == SERVERS.urls


async def test_words_and_parts_of_a_stage_are_waited_for() -> None:
    async with meeting(3) as here:
        members = [await here.member(shard) for shard in (1, 2)]
        answer = here.begin(here.gate.all_ended(0))
        parts = here.begin(here.gate.parts(0))
        _, packed = seal(record_of(raw_stage()))
        await members[0].send(ended(1))
        await members[0].send(messages.ShardPart(sequence=0, packed=packed))
        await members[1].send(ended(2))
        assert {
            shard: word.succeeded for shard, word in (await answer).items()
        } == {1: 1, 2: 2}
        assert not parts.done()
        await members[1].send(messages.ShardPart(sequence=0, packed=None))
        assert await parts == (packed,)


async def test_answers_of_the_others_are_heard_while_a_stage_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchrun_client.shards.messages.BEAT_SECONDS", 0.01)
    async with meeting(3) as here:
        await here.member(1, answered=4)
        await here.member(2, answered=3)
        await asyncio.wait_for(here.heard_of_seven.wait(), 10)


async def test_at_the_end_all_are_sent_home() -> None:
    async with meeting(2) as here:
        member = await here.member(1)
        watched = here.begin(here.gate.watch())
        await here.gate.close()
        await asyncio.wait_for(here.tasks[0], 5)
        await member.close()
        assert not watched.done()


async def test_a_closed_connection_is_a_lost_shard() -> None:
    async with meeting(2) as here:
        member = await here.member(1)
        here.begin(here.gate.open(0, STAGE))
        await member.ready(0, error_seconds=0)
        await member.close()
        with pytest.raises(RunFailure) as lost:
            await asyncio.wait_for(here.gate.watch(), 5)
        golden(str(lost.value))
        assert lost.value.reason == "ShardLost"


async def test_a_silent_shard_is_lost_once_it_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchrun_client.shards.messages.BEAT_SECONDS", 3600)
    monkeypatch.setattr("benchrun_client.shards.messages.SILENT_SECONDS", 0.2)
    async with meeting(2) as here:
        member = await here.member(1)
        here.begin(here.gate.open(0, STAGE))
        await member.ready(0, error_seconds=0)
        # Its last word; from here on it is silent.
        await member.send(ended(1))
        with pytest.raises(RunFailure, match="no message for"):
            await asyncio.wait_for(here.gate.watch(), 5)


async def test_a_silent_gate_is_a_lost_shard_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silent(_: GateServer) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(GateServer, "_beat", silent)
    monkeypatch.setattr("benchrun_client.shards.messages.BEAT_SECONDS", 0.01)
    monkeypatch.setattr(
        "benchrun_client.shards.messages.PREPARING_SILENT_SECONDS", 0.2
    )
    async with meeting(2) as here:
        await here.member(1)
        with pytest.raises(RunFailure) as lost:
            await asyncio.wait_for(here.tasks[0], 5)
        golden(str(lost.value))
        assert lost.value.reason == "ShardLost"


async def test_a_shard_that_fails_tells_why_before_it_leaves() -> None:
    async with meeting(2) as here:
        member = await here.member(1)
        await member.report(RunFailure("DatasetNotFound", "no file"))
        await member.close()
        with pytest.raises(RunFailure) as failure:
            await asyncio.wait_for(here.gate.watch(), 5)
        golden(str(failure.value))
        assert failure.value.reason == "DatasetNotFound"


async def test_what_is_seen_from_outside_counts_as_well() -> None:
    async with meeting(3) as here:
        here.gate.lose(2, "the shard's process ended with code -9")
        with pytest.raises(RunFailure) as raised:
            await asyncio.wait_for(here.gate.watch(), 5)
        golden(str(raised.value))


@pytest.mark.parametrize(
    ("changes", "word", "status"),
    [
        ({}, "f" * 16, 403),
        ({}, "", 403),
        ({}, TOKEN, 403),
        ({"run": "another"}, TOKEN_DIGEST, 409),
        ({"plan": "0" * 64}, TOKEN_DIGEST, 409),
        ({"shard": "0"}, TOKEN_DIGEST, 409),
        ({"shard": "2"}, TOKEN_DIGEST, 409),
        ({"shard": "-1"}, TOKEN_DIGEST, 409),
        ({"shard": "one"}, TOKEN_DIGEST, 409),
    ],
)
async def test_strangers_are_rejected_before_they_say_anything(
    changes: dict[str, str], word: str, status: int
) -> None:
    query = {"run": PLAN.run_uid, "plan": PLAN.digest(), "shard": "1", **changes}
    async with meeting(2) as here, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(
                f"http://127.0.0.1:{here.port}{GATE_PATH}",
                params=query,
                headers={"Authorization": f"Bearer {word}"},
            )
        assert refused.value.status == status


async def test_a_shard_comes_once() -> None:
    async with meeting(2) as here:
        await here.member(1)
        with pytest.raises(RunFailure) as raised:
            await here.member(1)
        golden(str(raised.value))


async def test_a_shard_of_another_plan_is_rejected() -> None:
    async with meeting(2) as here:
        with pytest.raises(RunFailure) as raised:
            await here.member(1, plan=plan(percentiles=("50",)))
        golden(str(raised.value))


async def test_the_first_may_come_last() -> None:
    gate = GateServer(PLAN, shards=2, on_answers=lambda _: None)
    port = await gate.start(address="127.0.0.1", port=0)
    await gate.close()
    member = GateClient(
        PLAN, shard=1, address=f"127.0.0.1:{port}", answered=lambda: 0
    )
    joining = asyncio.create_task(member.join())
    done, _ = await asyncio.wait([joining], timeout=0.3)
    assert not done
    repeated = GateServer(PLAN, shards=2, on_answers=lambda _: None)
    await repeated.start(address="127.0.0.1", port=port)
    await asyncio.wait_for(joining, 5)
    await member.close()
    await repeated.close()


# The gate's clock, from a few questions.

WAY = st.floats(min_value=1e-5, max_value=2.0)


@given(
    ahead=st.floats(min_value=-1e6, max_value=1e6),
    ways=st.lists(st.tuples(WAY, WAY), min_size=1, max_size=8),
)
def test_the_error_never_exceeds_the_stated_bound(
    ahead: float, ways: list[tuple[float, float]]
) -> None:
    for n, (there, back) in enumerate(ways):
        found = offset_of(
            ClockAnswer(left=n, gate_time=n + there + ahead), came=n + there + back
        )
        assert abs(found.seconds - ahead) <= found.error + 1e-6


def test_an_offset_is_in_error_by_half_of_what_the_question_took() -> None:
    found = offset_of(ClockAnswer(left=2.0, gate_time=102.001), came=2.002)
    assert (round(found.seconds, 9), round(found.error, 9)) == (100.0, 0.001)
