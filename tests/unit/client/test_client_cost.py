"""The client's account of itself: what it cost, and how late it came, from the first send to the
last answer."""

import asyncio
import time
from pathlib import Path

import pytest
from benchrun_client.load.client_cost import (
    TICK_SECONDS,
    CostWatch,
    LagProbe,
    node_cpu_seconds,
    throttled_periods,
)

TICK = 0.01
HELD_UP = 0.2


async def passed(seconds: float) -> None:
    """Let the loop idle for so long."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_later(seconds, done.set_result, None)
    await done


def hold_up(seconds: float) -> None:
    """What a garbage collection or a long calculation does to the loop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_a_loop_held_up_is_late_for_every_tick_within_and_a_tick_less_for_each_later_one() -> (
    None
):
    loop = asyncio.get_running_loop()
    probe = LagProbe(loop, tick_seconds=TICK)
    await passed(0.1)
    hold_up(HELD_UP)
    await passed(0.1)
    lags = probe.stop(at=loop.time())
    first = lags.index(max(lags))
    assert lags[first] >= HELD_UP - 2 * TICK
    missed = int(HELD_UP / TICK) - 2
    assert lags[first : first + missed] == pytest.approx(
        [lags[first] - n * TICK for n in range(missed)]
    )


async def test_ticks_are_as_many_as_were_due_until_the_last_answer_and_none_is_early() -> (
    None
):
    loop = asyncio.get_running_loop()
    started = loop.time()
    probe = LagProbe(loop, tick_seconds=TICK)
    await passed(0.1)
    last_answer = loop.time()
    # What holds the loop up from here on, vLLM's own calculations say, is nobody's lag.
    hold_up(HELD_UP)
    await passed(0.05)
    lags = probe.stop(at=last_answer)
    due = (last_answer - started) / TICK
    assert due - 2 <= len(lags) <= due
    assert min(lags) >= -0.001


async def test_a_stage_shorter_than_a_tick_has_no_ticks() -> None:
    loop = asyncio.get_running_loop()
    assert LagProbe(loop).stop(at=loop.time()) == []


async def test_a_stopped_probe_ticks_no_more() -> None:
    loop = asyncio.get_running_loop()
    probe = LagProbe(loop, tick_seconds=TICK)
    await passed(5 * TICK)
    first = probe.stop(at=loop.time())
    await passed(5 * TICK)
    assert probe.stop(at=loop.time()) == first


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


async def test_the_account_runs_from_the_first_send_to_the_last_answer() -> None:
    watch = CostWatch(requests=2)
    burn(0.1)
    wall = time.perf_counter()
    cpu = time.process_time()
    watch.on_first_send()
    burn(0.1)
    await passed(0.1)
    watch.on_answer()
    watch.on_answer()
    wall = time.perf_counter() - wall
    cpu = time.process_time() - cpu
    burn(0.1)
    cost = watch.cost()
    assert 0.1 <= cost.cpu_seconds <= cpu
    assert 0.2 <= cost.wall_seconds <= wall
    # The first ticks were due while the processor was busy with something else.
    assert max(cost.lags) > 0.1 - 2 * TICK_SECONDS
    assert len(cost.lags) <= wall / TICK_SECONDS
    assert cost.lost_segments is not None
    assert cost.node_cpu_seconds is not None
    assert cost.stolen_seconds is not None
    # The kernel counts in hundredths; this process burned a tenth of a second of it.
    assert cost.node_cpu_seconds >= 0.05
    assert 0 <= cost.stolen_seconds <= cost.node_cpu_seconds


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param(
            7,
            "usage_usec 5\nnr_periods 9\nnr_throttled 7\nthrottled_usec 12\n",
            id="limited",
        ),
        pytest.param(None, "usage_usec 5\n", id="no-controller"),
        pytest.param(None, "nr_throttled many\n", id="no-number"),
        pytest.param(None, "\n", id="empty-line"),
    ],
)
def test_throttled_periods_are_read(
    tmp_path: Path, expected: int | None, text: str
) -> None:
    file = tmp_path / "cpu.stat"
    file.write_text(text)
    assert throttled_periods([tmp_path / "missing", file]) == expected


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param(
            (15.0, 4.0),
            "cpu  500 100 300 9000 70 50 150 400 100 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
            id="a guest",
        ),
        pytest.param(
            (11.0, 0.0),
            "cpu  500 100 300 9000 70 50 150 0\n",
            id="on its own machine",
        ),
        pytest.param(
            None,
            "cpu  500 100 300 9000 70 50 150\n",
            id="a kernel that does not count steal",
        ),
        pytest.param(None, "cpu  500 100 300 many 70 50 150 0\n", id="no-number"),
        pytest.param(None, "", id="empty"),
    ],
)
def test_cpu_of_the_node_and_what_was_stolen_of_it(
    tmp_path: Path, expected: tuple[float, float] | None, text: str
) -> None:
    file = tmp_path / "stat"
    file.write_text(text)
    assert node_cpu_seconds(file) == expected
    assert node_cpu_seconds(tmp_path / "missing") is None
