"""Work that is kept going: what ends is begun anew, whatever it ended by, and who stops it waits
for it."""

import asyncio
from itertools import repeat

import pytest
from benchrun.runtime.background_tasks import keep_doing
from unit.runtime.fast_time import in_fast_time, passing


@pytest.mark.parametrize(
    "error",
    [None, ValueError("broken"), asyncio.CancelledError()],
    ids=["end", "error", "cancelled"],
)
@in_fast_time
async def test_whatever_work_ends_by_it_is_begun_anew(
    error: BaseException | None,
) -> None:
    begun: list[None] = []
    restarts: list[None] = []

    async def work() -> None:
        begun.append(None)
        if error is not None:
            raise error

    task = keep_doing(
        "work", work, pauses=repeat(1.0), restarted=lambda: restarts.append(None)
    )
    await passing(2.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await passing(5)
    assert (len(begun), len(restarts)) == (3, 3)


@in_fast_time
async def test_it_has_ended_when_the_work_has() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(2)
            ended.append("work")

    task = keep_doing(
        "work",
        work,
        pauses=repeat(1.0),
        restarted=lambda: ended.append("restarted"),
    )
    await passing(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ended == ["work"]
