"""The work queue: each key once, one pass a key at a time, retried with growing pauses. Time jumps, nothing sleeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from benchrun.runtime.queue import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, STOP_SECONDS, Later, WorkQueue
from unit.runtime.fast_time import now, passing, run_fast

Handle = Callable[[str], Awaitable[float | None]]


def highest() -> float:
    """Jitter that leaves back-offs at their longest."""
    return 1.0


class Passes:
    """A handler that notes when it was called, and answers as told."""

    def __init__(self, *answers: float | Exception | None, takes_seconds: float = 0.0) -> None:
        self.calls: list[tuple[str, float]] = []
        self.at_once = 0
        self.most_at_once = 0
        self._answers = list(answers)
        self._takes_seconds = takes_seconds

    async def __call__(self, key: str) -> float | None:
        self.calls.append((key, now()))
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


async def running(handle: Handle, *, workers: int = 2, jitter: Callable[[], float] = highest) -> WorkQueue[str]:
    queue = WorkQueue(handle, workers=workers, jitter=jitter)
    queue.start()
    await passing(0)
    return queue


def test_key_added_many_times_is_handled_once() -> None:
    async def scenario() -> None:
        passes = Passes()
        queue = WorkQueue(passes, workers=2)
        for _ in range(5):
            queue.add("a")
        assert queue.depth == 1
        queue.start()
        await passing(1)
        assert passes.calls == [("a", 0.0)]
        assert queue.depth == 0
        await queue.stop()

    run_fast(scenario())


def test_nothing_is_handled_before_start() -> None:
    async def scenario() -> None:
        passes = Passes()
        queue = WorkQueue(passes, workers=1)
        queue.add("a")
        await passing(60)
        assert passes.calls == []
        assert not queue.alive

    run_fast(scenario())


def test_key_added_while_handled_is_handled_once_more_and_never_twice_at_a_time() -> None:
    async def scenario() -> None:
        passes = Passes(takes_seconds=10)
        queue = await running(passes, workers=4)
        queue.add("a")
        for _ in range(3):
            await passing(1)
            queue.add("a")
        await passing(100)
        assert passes.instants == [0, 10]
        assert passes.most_at_once == 1
        await queue.stop()

    run_fast(scenario())


def test_different_keys_are_handled_at_the_same_time_up_to_the_number_of_workers() -> None:
    async def scenario() -> None:
        passes = Passes(takes_seconds=10)
        queue = await running(passes, workers=2)
        for key in "abc":
            queue.add(key)
        await passing(5)
        assert [key for key, _ in passes.calls] == ["a", "b"]
        assert queue.depth == 1
        await passing(100)
        assert passes.instants == [0, 0, 10]
        await queue.stop()

    run_fast(scenario())


def test_pass_says_when_to_look_again() -> None:
    async def scenario() -> None:
        passes = Passes(30.0, 5.0, None)
        queue = await running(passes)
        queue.add("a")
        await passing(3600)
        assert passes.instants == [0, 30, 35]
        await queue.stop()

    run_fast(scenario())


def test_zero_means_at_once() -> None:
    async def scenario() -> None:
        passes = Passes(0.0, None)
        queue = await running(passes)
        queue.add("a")
        await passing(1)
        assert passes.instants == [0, 0]
        await queue.stop()

    run_fast(scenario())


def test_of_several_wishes_the_earliest_wins() -> None:
    async def scenario() -> None:
        passes = Passes()
        queue = await running(passes)
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)
        await passing(3600)
        assert passes.instants == [10]
        await queue.stop()

    run_fast(scenario())


def test_something_happening_replaces_the_wait() -> None:
    async def scenario() -> None:
        passes = Passes(30.0, None)
        queue = await running(passes)
        queue.add("a")
        await passing(10)
        queue.add("a")
        await passing(3600)
        assert passes.instants == [0, 10]
        await queue.stop()

    run_fast(scenario())


def test_failures_are_retried_with_pauses_that_double_to_a_limit() -> None:
    async def scenario() -> None:
        failures = [RuntimeError("no")] * 12
        passes = Passes(*failures)
        queue = await running(passes)
        queue.add("a")
        await passing(3600)
        pauses = [round(b - a, 3) for a, b in pairwise(passes.instants)]
        assert pauses[:4] == [FIRST_RETRY_SECONDS, 1.0, 2.0, 4.0]
        assert pauses[-1] == max(pauses) == LONGEST_RETRY_SECONDS
        assert len(pauses) == 12
        await queue.stop()

    run_fast(scenario())


def test_success_forgets_the_failures() -> None:
    async def scenario() -> None:
        passes = Passes(RuntimeError(), RuntimeError(), 10.0, RuntimeError(), None)
        queue = await running(passes)
        queue.add("a")
        await passing(3600)
        assert passes.instants == [0, 0.5, 1.5, 11.5, 12.0]
        await queue.stop()

    run_fast(scenario())


def test_jitter_shortens_a_pause_to_no_less_than_half() -> None:
    async def scenario() -> None:
        passes = Passes(RuntimeError(), None)
        queue = await running(passes, jitter=lambda: 0.0)
        queue.add("a")
        await passing(60)
        assert passes.instants == [0, FIRST_RETRY_SECONDS / 2]
        await queue.stop()

    run_fast(scenario())


def test_later_waits_at_least_as_long_as_it_says() -> None:
    async def scenario() -> None:
        passes = Passes(Later("throttled", seconds=42), None)
        queue = await running(passes)
        queue.add("a")
        await passing(3600)
        assert passes.instants == [0, 42]
        await queue.stop()

    run_fast(scenario())


def test_event_during_a_failing_pass_does_not_cut_the_pause() -> None:
    async def scenario() -> None:
        passes = Passes(Later("throttled", seconds=42), None, takes_seconds=1)
        queue = await running(passes)
        queue.add("a")
        await passing(0.5)
        queue.add("a")
        await passing(3600)
        assert passes.instants == [0, 43]
        await queue.stop()

    run_fast(scenario())


def test_failure_of_one_key_does_not_hold_up_another(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(key: str) -> float | None:
        handled.append(key)
        if key == "bad":
            raise RuntimeError("broken")
        return None

    async def scenario() -> None:
        queue = await running(handle, workers=1)
        queue.add("bad")
        queue.add("good")
        await passing(0.1)
        assert handled == ["bad", "good"]
        assert queue.alive
        await queue.stop()

    handled: list[str] = []
    with caplog.at_level(logging.ERROR):
        run_fast(scenario())
    assert "pass over bad failed" in caplog.text


def test_stop_lets_a_pass_end_and_starts_nothing_new() -> None:
    async def scenario() -> None:
        passes = Passes(takes_seconds=1)
        queue = await running(passes, workers=1)
        queue.add("under-way")
        queue.add("waiting")
        queue.add_after("later", 2)
        await passing(0.5)
        await queue.stop()
        assert now() == pytest.approx(1.0)
        assert passes.at_once == 0
        await passing(60)
        assert [key for key, _ in passes.calls] == ["under-way"]
        assert not queue.alive

    run_fast(scenario())


def test_stop_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        queue = await running(Passes(takes_seconds=3600), workers=1)
        queue.add("stuck")
        await passing(0)
        await queue.stop()
        assert now() == pytest.approx(STOP_SECONDS)

    run_fast(scenario())


def test_dead_worker_is_noticed() -> None:
    async def scenario() -> None:
        async def dies(_: str) -> float | None:
            raise asyncio.CancelledError

        queue = await running(dies, workers=2)
        assert queue.alive
        queue.add("a")
        await passing(1)
        assert not queue.alive
        await queue.stop()

    run_fast(scenario())
