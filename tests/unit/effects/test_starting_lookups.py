"""Look-ups: each query is answered once, within its time, whatever happens to it; the answer is
told once. Time jumps."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import pytest
from benchrun.decide import Answer, Answers, Query, decision
from benchrun.effects import (
    AT_ONCE,
    KINDS,
    PROBLEM_CHARS,
    About,
    Kind,
    LookUps,
    NotFound,
    NotFoundOut,
    Tools,
    Unavailable,
)
from benchrun.observe import Children, Key, Run, run_key
from unit.runtime.bodies import KEY, NAMESPACE, UID
from unit.runtime.fast_time import now, passing, run_fast
from unit.runtime.judges import Judge
from unit.runtime.memory_cluster import MemoryCluster

OTHER = run_key(NAMESPACE, "other")
ABOUT = About(
    Run(namespace=NAMESPACE, name="chat", uid=UID, generation=1), Children()
)
SECONDS = 5.0
AGAIN_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Slow(Query[str]):
    """Takes as long as a test says."""

    name: str = "a"


@dataclass(frozen=True, slots=True)
class Repeated(Query[str]):
    """Asked again after it failed."""

    name: str = "a"


@dataclass(frozen=True, slots=True)
class Watched(Query[str]):
    """Asked again though something was found."""


@dataclass(frozen=True, slots=True)
class Kept(Query[str]):
    """Asked again though something was found, which stays where nothing is."""


class Desk:
    """Look-ups of two kinds, and what came of them."""

    def __init__(
        self,
        outcome: Callable[[], str] = lambda: "found",
        takes_seconds: float = 1.0,
    ) -> None:
        self.outcome = outcome
        self.takes_seconds = takes_seconds
        self.requests: list[float] = []
        self.at_once = self.most_at_once = 0
        self.answers = Answers()
        self.news: list[tuple[Key, float]] = []
        kinds: dict[type[Query[Any]], Kind] = {
            Slow: Kind(self._look_up, seconds=SECONDS),
            Repeated: Kind(
                self._look_up, seconds=SECONDS, retry_seconds=AGAIN_SECONDS
            ),
            Watched: Kind(
                self._look_up, seconds=SECONDS, again_seconds=AGAIN_SECONDS
            ),
            Kept: Kind(
                self._look_up,
                seconds=SECONDS,
                again_seconds=AGAIN_SECONDS,
                keeps_answer=True,
            ),
        }
        tools = Tools(MemoryCluster(), Judge())
        self.lookups: LookUps = LookUps(
            tools, news=lambda key: self.news.append((key, now())), kinds=kinds
        )

    def ask(
        self,
        *queries: Query[Any],
        key: Key = KEY,
        about: About = ABOUT,
        answers: Answers | None = None,
    ) -> None:
        self.lookups.ask(
            key, about, queries, self.answers if answers is None else answers
        )

    async def _look_up(self, tools: Tools, about: About, query: Query[Any]) -> str:
        self.requests.append(now())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await passing(self.takes_seconds)
        finally:
            self.at_once -= 1
        return self.outcome()


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test in jumping time; nothing of it goes on at the end."""

    def run(**values: Any) -> None:
        async def go() -> None:
            await test(**values)
            assert len(asyncio.all_tasks()) == 1

        run_fast(go())

    run.__name__ = test.__name__
    return run


def failing(error: Exception) -> Callable[[], str]:
    def outcome() -> str:
        raise error

    return outcome


@scenario
async def test_a_question_is_answered_and_reported_once() -> None:
    desk = Desk()
    for _ in range(5):
        desk.ask(Slow(), Slow())
    await passing(2)
    desk.ask(Slow())
    await passing(100)
    assert (desk.answers, desk.requests, desk.news) == (
        {Slow(): Answer("found")},
        [0.0],
        [(KEY, 1.0)],
    )


@scenario
async def test_asking_takes_no_time_and_raises_nothing() -> None:
    desk = Desk(failing(ZeroDivisionError()), takes_seconds=0.0)
    desk.ask(Slow())
    assert (now(), desk.requests, desk.answers) == (0.0, [], {})
    await passing(1)
    assert desk.answers.value(Slow()) is None


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (Unavailable("down"), "down"),
        (NotFound("gone", code=404), "gone"),
        (Unavailable(""), "Unavailable"),
        (NotFoundOut("there is none"), "there is none"),
        (ZeroDivisionError("ours"), "ZeroDivisionError: ours"),
        (RecursionError("deep"), "RecursionError: deep"),
        (Unavailable("x" * 10_000), "x" * PROBLEM_CHARS),
    ],
)
def test_a_failure_is_an_answer(error: Exception, problem: str) -> None:
    @scenario
    async def fails() -> None:
        desk = Desk(failing(error))
        desk.ask(Slow())
        await passing(2)
        desk.ask(Slow())
        await passing(100)
        assert desk.answers == {Slow(): Answer(None, problem)}
        assert (len(desk.requests), len(desk.news)) == (1, 1)

    fails()


@scenario
async def test_an_answer_that_does_not_come_in_time_is_given_up() -> None:
    desk = Desk(takes_seconds=1e9)
    desk.ask(Slow())
    await passing(SECONDS + 1)
    answer = desk.answers.of(Slow())
    assert answer is not None
    assert (answer.value, desk.news, desk.at_once) == (None, [(KEY, SECONDS)], 0)


@scenario
async def test_a_failure_of_some_kinds_is_retried_while_it_is_requested() -> None:
    desk = Desk(failing(NotFoundOut("no ready pods")), takes_seconds=0.0)
    for _ in range(20):
        desk.ask(Repeated(), Slow())
        await passing(1)
    assert desk.requests == [0.0, 0.0, 4.0, 8.0, 12.0, 16.0]
    assert len(desk.news) == 2, "the same failure again is no news"
    desk.outcome = lambda: "there"
    for _ in range(20):
        desk.ask(Repeated(), Slow())
        await passing(1)
    assert (len(desk.requests), desk.answers.value(Repeated())) == (7, "there")
    assert [key for key, _ in desk.news] == [KEY] * 3


@scenario
async def test_the_answer_before_stands_while_it_is_retried() -> None:
    desk = Desk(failing(NotFoundOut("none")), takes_seconds=1.0)
    desk.ask(Repeated())
    await passing(6)
    desk.ask(Repeated())
    await passing(0.5)
    assert (desk.at_once, desk.answers.of(Repeated())) == (1, Answer(None, "none"))
    await desk.lookups.close()


@scenario
async def test_few_of_a_kind_are_looked_up_at_once_over_all_runs() -> None:
    desk = Desk()
    slots = 3
    for number in range(slots * AT_ONCE):
        desk.ask(
            Slow(str(number)),
            key=run_key(NAMESPACE, str(number)),
            answers=Answers(),
        )
    await passing(slots + 0.5)
    assert (desk.most_at_once, len(desk.news)) == (8, slots * AT_ONCE)


@scenario
async def test_another_namespace_does_not_wait_for_those_that_came_before() -> None:
    desk = Desk()
    elsewhere = run_key("another", "chat")
    for number in range(3 * AT_ONCE):
        desk.ask(
            Slow(str(number)),
            key=run_key(NAMESPACE, str(number)),
            answers=Answers(),
        )
    desk.ask(Slow(), key=elsewhere)
    await passing(1.5)
    assert (elsewhere, 1.0) in desk.news
    await desk.lookups.close()


@scenario
async def test_what_waits_holds_no_spec_but_its_bytes() -> None:
    desk = Desk()
    about = replace(
        ABOUT, run=replace(ABOUT.run, spec={"free": [[]] * 1000}, status={"a": 1})
    )
    for query in (Slow(), decision.Judging(ended_early=False)):
        waiting = about.waiting(query)
        assert (waiting.run.spec, waiting.run.status, len(waiting.spec) < 100) == (
            {},
            {},
            True,
        )
    assert (
        about.waiting(decision.Judging(ended_early=False)).whole().run.spec
        == about.run.spec
    )
    await desk.lookups.close()


@scenario
async def test_a_kind_does_not_wait_for_another_and_waiting_is_not_counted() -> (
    None
):
    desk = Desk(takes_seconds=SECONDS - 1)
    for number in range(2 * AT_ONCE):
        desk.ask(Slow(str(number)))
    desk.ask(Repeated())
    await passing(SECONDS - 0.5)
    assert desk.answers.value(Repeated()) == "found"
    await passing(SECONDS)
    assert [answer.value for answer in desk.answers.values()] == ["found"] * (
        2 * AT_ONCE + 1
    )


@scenario
async def test_a_stopped_question_is_not_answered_and_frees_its_slot() -> None:
    desk = Desk()
    for number in range(2 * AT_ONCE):
        desk.ask(Slow(str(number)))
    desk.ask(Slow("other"), key=OTHER, answers=(others := Answers()))
    await passing(0.5)
    desk.lookups.stop(KEY)
    await passing(10)
    assert (desk.answers, others, desk.news) == (
        {},
        {Slow("other"): Answer("found")},
        [(OTHER, 1.5)],
    )


@scenario
async def test_a_run_recreated_under_the_same_name_is_answered_anew() -> None:
    desk = Desk(failing(NotFoundOut("none")), takes_seconds=0.0)
    desk.ask(Repeated())
    await passing(1)
    desk.lookups.stop(KEY)
    desk.ask(Repeated(), answers=(anew := Answers()))
    await passing(1)
    assert (desk.requests, list(anew)) == ([0.0, 1.0], [Repeated()])


@scenario
async def test_what_is_looked_up_for_an_earlier_run_is_not_waited_for() -> None:
    """Nobody has said yet that the run before is gone."""
    desk = Desk()
    answers = Answers()
    desk.ask(Slow())
    await passing(0.5)
    desk.ask(
        Slow(),
        about=replace(ABOUT, run=replace(ABOUT.run, uid="later")),
        answers=answers,
    )
    await passing(10)
    assert (answers, desk.requests) == ({Slow(): Answer("found")}, [0.0, 0.5])


@scenario
async def test_a_question_can_be_answered_at_once_and_for_all() -> None:
    desk = Desk(takes_seconds=2.0)
    await desk.lookups.within(1.0, ABOUT, Slow(), desk.answers)
    assert (now(), desk.answers.value(Slow())) == (1.0, None)
    await desk.lookups.within(1.0, ABOUT, Slow(), desk.answers)
    desk.ask(Slow())
    await passing(10)
    assert (desk.requests, desk.news) == ([0.0], [])


@scenario
async def test_closing_leaves_everything() -> None:
    desk = Desk()
    for key in (KEY, OTHER):
        desk.ask(Slow(), key=key, answers=Answers())
    await passing(0.5)
    await desk.lookups.close()
    assert (now(), desk.at_once, desk.news) == (0.5, 0, [])


@scenario
async def test_what_changes_is_looked_up_again_and_reported_when_it_did() -> None:
    desk = Desk()
    for outcome in ("a", "a", "b"):
        desk.outcome = lambda outcome=outcome: outcome  # type: ignore[misc]
        desk.ask(Watched())
        await passing(2)
        desk.ask(Watched())  # too early
        await passing(AGAIN_SECONDS)
    assert (len(desk.requests), desk.answers.value(Watched())) == (3, "b")
    assert len(desk.news) == 2


@scenario
async def test_an_answer_may_stay_where_its_repeat_fails() -> None:
    desk = Desk(failing(Unavailable("down")))
    found = []
    for outcome in (desk.outcome, lambda: "a", desk.outcome, lambda: "b"):
        desk.outcome = outcome
        desk.ask(Kept())
        await passing(2 + AGAIN_SECONDS)
        found.append(desk.answers.value(Kept()))
        if found == [None]:
            desk.answers.clear()
    assert (found, len(desk.news)) == ([None, "a", "a", "b"], 3)


def test_every_kind_of_question_has_a_handler_and_a_time() -> None:
    queries = {
        each
        for each in vars(decision).values()
        if isinstance(each, type) and issubclass(each, Query)
    }
    assert set(KINDS) == queries - {Query}
    assert {
        type_.__name__: (kind.seconds, kind.retry_seconds)
        for type_, kind in KINDS.items()
    } == {
        "Compilations": (5.0, None),
        "EndpointPods": (10.0, 4.0),
        "Exporter": (10.0, None),
        "Flavors": (10.0, 9.0),
        "Judging": (None, None),
        "LabelledPods": (10.0, 4.0),
        "LogTail": (10.0, None),
        "PodsRefused": (10.0, 9.0),
        "ServerStart": (15.0, None),
    }
