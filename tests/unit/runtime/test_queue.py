"""The work queue: each key once, one pass a key at a time, fair between namespaces, retried with
growing pauses.

Time jumps, nothing sleeps.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import pytest
from benchrun.observe import Key, run_key
from benchrun.runtime.queue import (
    FIRST_RETRY_SECONDS,
    LONGEST_RETRY_SECONDS,
    LONGEST_URGENT_RETRY_SECONDS,
    PICKS_IN_A_ROW,
    STOP_SECONDS,
    Later,
    WorkQueue,
)
from unit.runtime.fast_time import in_fast_time, now, passing, run_fast

Handle = Callable[[Key], Awaitable[float | None]]


def run(name: str, namespace: str = "lab") -> Key:
    """The key of a run."""
    return run_key(namespace, name)


def highest() -> float:
    """Jitter that leaves back-offs at their longest."""
    return 1.0


class Passes:
    """A handler that notes when it was called, and answers as told."""

    def __init__(
        self, *answers: float | Exception | None, takes_seconds: float = 0.0
    ) -> None:
        self.calls: list[tuple[str, float]] = []
        self.at_once = 0
        self.most_at_once = 0
        self._answers = list(answers)
        self._takes_seconds = takes_seconds

    async def __call__(self, key: Key) -> float | None:
        self.calls.append((key.name, now()))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self._takes_seconds:
                await passing(self._takes_seconds)
        finally:
            self.at_once -= 1
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def instants(self) -> list[float]:
        return [round(at, 3) for _, at in self.calls]


async def running(
    handle: Handle, *, workers: int = 2, jitter: Callable[[], float] = highest
) -> WorkQueue:
    queue = WorkQueue(handle, workers=workers, jitter=jitter)
    queue.start()
    await passing(0)
    return queue


@in_fast_time
async def test_key_added_many_times_is_handled_once() -> None:
    passes = Passes()
    queue = WorkQueue(passes, workers=2)
    for _ in range(5):
        queue.add(run("a"))
    assert queue.depth == 1
    queue.start()
    await passing(1)
    assert passes.calls == [("a", 0.0)]
    assert queue.depth == 0
    await queue.stop()


@in_fast_time
async def test_queue_is_started_once() -> None:
    passes = Passes(takes_seconds=1)
    queue = await running(passes, workers=1)
    queue.start()
    for name in ("a", "b"):
        queue.add(run(name))
    await passing(10)
    assert passes.most_at_once == 1
    await queue.stop()
    queue.start()
    queue.add(run("c"))
    await passing(10)
    assert len(passes.calls) == 2


@in_fast_time
async def test_nothing_is_handled_before_start() -> None:
    passes = Passes()
    WorkQueue(passes, workers=1).add(run("a"))
    await passing(60)
    assert passes.calls == []


@in_fast_time
async def test_key_added_while_handled_is_handled_once_more_and_never_twice_at_a_time() -> (
    None
):
    passes = Passes(takes_seconds=10)
    queue = await running(passes, workers=4)
    queue.add(run("a"))
    for _ in range(3):
        await passing(1)
        queue.add(run("a"))
    await passing(100)
    assert (passes.instants, passes.most_at_once) == ([0, 10], 1)
    await queue.stop()


@in_fast_time
async def test_different_keys_are_handled_at_the_same_time_up_to_the_number_of_workers() -> (
    None
):
    passes = Passes(takes_seconds=10)
    queue = await running(passes, workers=2)
    for key in "abc":
        queue.add(run(key))
    await passing(5)
    assert [key for key, _ in passes.calls] == ["a", "b"]
    assert queue.depth == 1
    await passing(100)
    assert passes.instants == [0, 0, 10]
    await queue.stop()


@pytest.mark.parametrize(
    ("answers", "instants"),
    [
        pytest.param(
            (30.0, 5.0, None),
            [0, 30, 35],
            id="a pass says when the next one is due",
        ),
        pytest.param((0.0, None), [0, 0], id="zero means at once"),
        pytest.param(
            (RuntimeError(), RuntimeError(), 10.0, RuntimeError(), None),
            [0, 0.5, 1.5, 11.5, 12.0],
            id="success",
        ),
        pytest.param(
            (Later("throttled", seconds=42), None),
            [0, 42],
            id="a throttled pass waits as long as it says",
        ),
        pytest.param(
            (*[Later("conflict", seconds=0.5, longest_seconds=4)] * 6, None),
            [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5],
            id="a conflict is never retried late",
        ),
    ],
)
@in_fast_time
async def test_answers_of_passes_set_the_pauses(
    answers: Sequence[float | Exception | None], instants: list[float]
) -> None:
    """Success forgets the failures before it."""
    passes = Passes(*answers)
    queue = await running(passes)
    queue.add(run("a"))
    await passing(3600)
    assert passes.instants == instants
    await queue.stop()


@in_fast_time
async def test_the_earliest_deadline_wins() -> None:
    passes = Passes()
    queue = await running(passes)
    queue.add_after(run("a"), 30)
    queue.add_after(run("a"), 10)
    queue.add_after(run("a"), 20)
    await passing(3600)
    assert passes.instants == [10]
    await queue.stop()


@pytest.mark.parametrize(
    ("passes", "event_at", "instants"),
    [
        pytest.param(
            Passes(30.0, None), 10, [0, 10], id="an event replaces the wait"
        ),
        pytest.param(
            Passes(Later("throttled", seconds=42), None, takes_seconds=1),
            0.5,
            [0, 43],
            id="but not that of a failing pass",
        ),
    ],
)
@in_fast_time
async def test_an_event_starts_a_pass(
    passes: Passes, event_at: float, instants: list[float]
) -> None:
    queue = await running(passes)
    queue.add(run("a"))
    await passing(event_at)
    queue.add(run("a"))
    await passing(3600)
    assert passes.instants == instants
    await queue.stop()


@in_fast_time
async def test_failures_are_retried_with_pauses_that_double_to_a_limit() -> None:
    failures = [RuntimeError("no")] * 12
    passes = Passes(*failures)
    queue = await running(passes)
    queue.add(run("a"))
    await passing(3600)
    pauses = [round(b - a, 3) for a, b in pairwise(passes.instants)]
    assert pauses[:4] == [FIRST_RETRY_SECONDS, 1.0, 2.0, 4.0]
    assert pauses[-1] == max(pauses) == LONGEST_RETRY_SECONDS
    assert len(pauses) == 12
    await queue.stop()


@in_fast_time
async def test_an_urgent_key_is_retried_soon_however_often_it_failed() -> None:
    """Once after up to 120 s: so late was a deadline seen that had passed meanwhile, and a delete
    offered that had failed."""
    passes = Passes(*[RuntimeError("no")] * 20)
    queue = WorkQueue(passes, workers=1, urgent=lambda _: True, jitter=highest)
    queue.start()
    queue.add(run("a"))
    await passing(300)
    pauses = [b - a for a, b in pairwise(passes.instants)]
    assert pauses[-1] == max(pauses) == LONGEST_URGENT_RETRY_SECONDS == 4
    await queue.stop()


@in_fast_time
async def test_jitter_shortens_a_pause_to_no_less_than_half() -> None:
    passes = Passes(RuntimeError(), None)
    queue = await running(passes, jitter=lambda: 0.0)
    queue.add(run("a"))
    await passing(60)
    assert passes.instants == [0, FIRST_RETRY_SECONDS / 2]
    await queue.stop()


def test_failure_of_one_key_does_not_hold_up_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(key: Key) -> float | None:
        handled.append(key.name)
        if key.name == "bad":
            raise RuntimeError("broken")
        return None

    async def scenario() -> None:
        queue = await running(handle, workers=1)
        queue.add(run("bad"))
        queue.add(run("good"))
        await passing(0.1)
        assert handled == ["bad", "good"]
        assert not queue.has_lost_workers
        await queue.stop()

    handled: list[str] = []
    with caplog.at_level(logging.ERROR):
        run_fast(scenario())
    assert "the reconcile of lab/bad failed" in caplog.text


@in_fast_time
async def test_stop_lets_a_pass_end_and_starts_nothing_new() -> None:
    passes = Passes(takes_seconds=1)
    queue = await running(passes, workers=1)
    queue.add(run("under-way"))
    queue.add(run("waiting"))
    queue.add_after(run("later"), 2)
    await passing(0.5)
    await queue.stop()
    assert now() == pytest.approx(1.0)
    assert passes.at_once == 0
    await passing(60)
    assert [key for key, _ in passes.calls] == ["under-way"]
    assert not queue.has_lost_workers


@in_fast_time
async def test_stop_does_not_wait_for_ever() -> None:
    queue = await running(Passes(takes_seconds=3600), workers=1)
    queue.add(run("stuck"))
    await passing(0)
    await queue.stop()
    assert now() == pytest.approx(STOP_SECONDS)


@in_fast_time
async def test_in_a_turn_of_the_loop_one_worker_begins() -> None:
    """Eight decisions in a row would delay the one that lets a GPU go, and every answer."""
    begun: list[int] = []
    passes = Passes(takes_seconds=1)
    queue = await running(passes, workers=8)
    for n in range(8):
        queue.add(run(str(n)))
    while passes.at_once < 8:
        before = len(passes.calls)
        await asyncio.sleep(0)
        begun.append(len(passes.calls) - before)
    assert now() == 0.0
    assert max(begun) == 1
    await queue.stop()


@in_fast_time
async def test_dead_worker_is_noticed() -> None:
    async def dies(_: Key) -> float | None:
        raise asyncio.CancelledError

    queue = await running(dies, workers=2)
    assert not queue.has_lost_workers
    queue.add(run("a"))
    await passing(1)
    assert queue.has_lost_workers
    await queue.stop()


# ---- whose turn it is
# ------------------------------------------------------------------------------------------------


@in_fast_time
async def test_namespaces_take_turns_however_much_one_of_them_asks_for() -> None:
    passes = Passes(takes_seconds=1)
    queue = WorkQueue(passes, workers=1)
    for number in range(50):
        queue.add(run(f"many-{number}", "greedy"))
    queue.add(run("one", "small"))
    queue.add(run("first", "other"))
    queue.add(run("second", "other"))
    queue.start()
    await passing(100)
    assert [name for name, _ in passes.calls][:6] == [
        "many-0",
        "one",
        "first",
        "many-1",
        "second",
        "many-2",
    ]
    assert len(passes.calls) == 53
    await queue.stop()


def is_urgent(key: Key) -> bool:
    return key.name.startswith("holds")


@in_fast_time
async def test_urgent_keys_go_before_all_others() -> None:
    passes = Passes(takes_seconds=1)
    queue = WorkQueue(passes, workers=1, urgent=is_urgent)
    for name in ("a", "b", "c"):
        queue.add(run(name))
    queue.add(run("holds", "other"))
    assert queue.depth == 4
    queue.start()
    await passing(100)
    assert [name for name, _ in passes.calls] == ["holds", "a", "b", "c"]
    await queue.stop()


@in_fast_time
async def test_one_pick_in_eight_is_left_to_the_others() -> None:
    order: list[str] = []

    async def handle(key: Key) -> float | None:
        order.append(key.name)
        await passing(1)
        return None

    queue = WorkQueue(handle, workers=1, urgent=is_urgent)
    for number in range(80):
        queue.add(run(f"holds-{number}"))
    for number in range(3):
        queue.add(run(f"waits-{number}"))
    queue.start()
    await passing(100)
    # The spare worker adds an urgent pick for each of the other worker's.
    places = [place for place, name in enumerate(order) if name.startswith("waits")]
    turn = 2 * (PICKS_IN_A_ROW + 1)
    assert [place // turn for place in places] == [0, 1, 2]
    assert len(order) == 83
    await queue.stop()


@in_fast_time
async def test_urgent_key_is_not_held_up_by_slow_passes_over_the_others() -> None:
    passes = Passes(takes_seconds=30)
    queue = WorkQueue(passes, workers=2, urgent=is_urgent)
    for number in range(10):
        queue.add(run(f"slow-{number}"))
    queue.start()
    await passing(5)
    queue.add(run("holds"))
    await passing(1)
    assert (passes.calls[-1], passes.most_at_once) == (("holds", 5.0), 3)
    await queue.stop()


@in_fast_time
async def test_key_that_became_urgent_while_it_waited_is_moved_up_and_handled_once() -> (
    None
):
    holding: set[str] = set()
    passes = Passes(takes_seconds=1)
    queue = WorkQueue(passes, workers=1, urgent=lambda key: key.name in holding)
    for name in ("a", "b", "c"):
        queue.add(run(name))
    holding.add("c")
    queue.add(run("c"))
    assert queue.depth == 3
    queue.start()
    await passing(100)
    assert [name for name, _ in passes.calls] == ["c", "a", "b"]
    await queue.stop()


async def test_passes_that_wait_for_nothing_do_not_keep_everybody_else_waiting() -> (
    None
):
    """Of a thousand runs that a pass has nothing to write for, each is looked at in one go: without
    a pause the loop would do nothing else for seconds."""
    passes = Passes()
    seen = [0]
    queue = WorkQueue(passes, workers=1)
    for number in range(100):
        queue.add(run(f"r{number}"))
    queue.start()
    while len(passes.calls) < 100:
        await asyncio.sleep(0)
        seen.append(len(passes.calls))
    await queue.stop()
    assert max(after - before for before, after in pairwise(seen)) <= 2
