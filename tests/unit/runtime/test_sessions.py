"""What goes on in the background is what was decided last, for each run by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from benchrun.decide.decision import PullTarget, ScrapeTarget
from benchrun.observe.views import Run
from benchrun.runtime.indexes import RunKey
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.sessions import Sessions
from benchrun.runtime.telemetry import Telemetry
from unit.runtime.bodies import KEY, UID
from unit.runtime.fakes import PAGE, LoopClock, Web
from unit.runtime.fast_time import passing, run_fast
from unit.runtime.test_following import NONCE, PLAN_NAME, RUN, Scene, answer, envelope

PULL = PullTarget(pod="client", url="http://10.0.0.9:8090", nonce=NONCE, from_sequence=0)
OTHER = RunKey("lab", "other")


def page(pod: str, seconds: int = 1) -> ScrapeTarget:
    return ScrapeTarget(role="server", pod=pod, url=f"http://{pod}:8000/metrics", interval_seconds=seconds)


class Background:
    """Sessions against a small web."""

    def __init__(self) -> None:
        self.web = Web(metrics=PAGE, version='{"version": "1"}', records=lambda: answer(envelope(0)))
        self.cluster = Scene(answer()).cluster
        self.enqueued: list[RunKey] = []
        self.memory = RunMemory(uid=UID)
        self.sessions = Sessions(
            cluster=self.cluster,
            exchanger=self.web,
            clock=LoopClock(),
            telemetry=Telemetry(),
            enqueue=self.enqueued.append,
        )

    def follow(
        self,
        *scrape: ScrapeTarget,
        pull: PullTarget | None = None,
        key: RunKey = KEY,
        run: Run = RUN,
        memory: RunMemory | None = None,
    ) -> None:
        self.sessions.follow(key, run, memory or self.memory, scrape=scrape, pull=pull)

    async def asked_in_the_next(self, seconds: float) -> dict[str, int]:
        """How often each host is asked for its page or records from now on."""
        before = len(self.web.asked)
        await passing(seconds)
        found: dict[str, int] = {}
        for url, _ in self.web.asked[before:]:
            if not url.endswith("/version"):
                host = url.split("/")[2].partition(":")[0]
                found[host] = found.get(host, 0) + 1
        return found


def scenario(test: Callable[[Background], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test in jumping time, closed at the end."""

    def run() -> None:
        async def go() -> None:
            background = Background()
            await test(background)
            await background.sessions.close()
            assert len(asyncio.all_tasks()) == 1

        run_fast(go())

    return run


@scenario
async def test_pages_are_read_from_the_decision_on(background: Background) -> None:
    background.follow(page("a"), page("b", seconds=2))
    assert await background.asked_in_the_next(10) == {"a": 10, "b": 5}
    assert background.enqueued == [KEY, KEY]


@scenario
async def test_same_decision_again_changes_nothing(background: Background) -> None:
    background.follow(page("a"))
    await passing(5)
    for _ in range(50):
        background.follow(page("a"))
    assert await background.asked_in_the_next(10) == {"a": 10}


@scenario
async def test_pages_come_and_go_one_by_one(background: Background) -> None:
    background.follow(page("a"), page("b"))
    await passing(5)
    background.follow(page("b"), page("c"))
    assert await background.asked_in_the_next(10) == {"b": 10, "c": 10}


@scenario
async def test_nothing_goes_on_once_nothing_is_wanted(background: Background) -> None:
    background.follow(page("a"), pull=PULL)
    await passing(5)
    assert len(background.sessions) == 1
    background.follow()
    assert await background.asked_in_the_next(60) == {}
    assert len(background.sessions) == 0


@scenario
async def test_run_without_anything_to_do_costs_nothing(background: Background) -> None:
    background.follow()
    assert len(background.sessions) == 0


@scenario
async def test_client_is_followed_on_when_only_the_next_record_changes(background: Background) -> None:
    background.follow(pull=PULL)
    await passing(1)
    background.follow(pull=PullTarget(pod="client", url=PULL.url, nonce=NONCE, from_sequence=1))
    await passing(1)
    assert background.cluster.log == [("get", "ConfigMap", PLAN_NAME)]


@scenario
async def test_client_that_is_another_one_is_followed_anew(background: Background) -> None:
    background.follow(pull=PULL)
    await passing(3)
    background.follow(pull=PullTarget(pod="client-2", url="http://10.0.0.8:8090", nonce=NONCE, from_sequence=0))
    assert set(await background.asked_in_the_next(10)) == {"10.0.0.8"}


@scenario
async def test_runs_do_not_share_anything(background: Background) -> None:
    background.follow(page("a"))
    background.follow(page("a"), key=OTHER, memory=RunMemory(uid="other"))
    await passing(5)
    background.sessions.stop(KEY)
    assert await background.asked_in_the_next(10) == {"a": 10}
    assert len(background.sessions) == 1


@scenario
async def test_run_made_anew_under_the_same_name_gets_its_own_tasks(background: Background) -> None:
    background.follow(page("a"))
    await passing(2.5)
    anew = RunMemory(uid="again")
    background.follow(page("a"), memory=anew)
    await passing(2.5)
    assert len(anew.unstored_samples) >= 2
    assert len(background.memory.unstored_samples) <= 3


@scenario
async def test_acknowledgement_goes_to_the_client_that_is_followed(background: Background) -> None:
    assert await background.sessions.acknowledge(KEY, 1) is False
    background.follow(pull=PULL)
    assert await background.sessions.acknowledge(KEY, 1) is True
    assert background.web.posted[0][0] == "http://10.0.0.9:8090/ack"


@scenario
async def test_stopping_what_was_never_started_is_harmless(background: Background) -> None:
    background.sessions.stop(OTHER)
