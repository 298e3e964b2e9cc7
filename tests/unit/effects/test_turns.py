"""Places that many wait for: namespaces take turns, and one that has none waits for nobody else's
work."""

import asyncio
from contextlib import suppress

import pytest
from benchrun.effects import Lane, Places
from benchrun.observe import Key, run_key


class Room:
    """Places, and who has one of them."""

    def __init__(self, most: int) -> None:
        self.places = Places(most)
        self.order: list[str] = []
        self.here: list[str] = []
        self._leave: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        """Let somebody come; the first letter is the namespace."""
        for name in names:
            self._leave[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._stay(name))
        await settled()

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await settled()

    async def give_up(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await settled()

    async def _stay(self, name: str) -> None:
        async with self.places.taken(name[0]):
            self.order.append(name)
            self.here.append(name)
            with suppress(asyncio.CancelledError):
                await self._leave[name].wait()
            self.here.remove(name)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_of_one_place_namespaces_take_turns() -> None:
    room = Room(1)
    await room.come("a0", "a1", "a2", "a3", "b0", "c0", "b1")
    for name in ("a0", "b0", "c0", "a1", "b1", "a2", "a3"):
        await room.leave(name)
    assert room.order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]
    assert room.places.free == 1


async def test_the_last_of_several_places_is_for_a_namespace_that_has_none() -> (
    None
):
    room = Room(3)
    await room.come("a0", "a1", "a2", "a3")
    assert room.here == ["a0", "a1"]
    await room.come("b0")
    assert room.here == ["a0", "a1", "b0"]


async def test_a_place_that_comes_free_is_for_the_namespace_that_has_the_fewest() -> (
    None
):
    room = Room(5)
    await room.come("a0", "a1", "a2", "a3", "b0", "a4", "b1")
    assert room.here == ["a0", "a1", "a2", "a3", "b0"]
    await room.leave("a1")
    assert room.here == ["a0", "a2", "a3", "b0"], (
        "the last is for a third namespace"
    )
    await room.leave("a0")
    assert room.here == ["a2", "a3", "b0", "b1"]


@pytest.mark.parametrize("gives_up", ["a1", "a0"])
async def test_who_gives_up_leaves_no_place_taken(gives_up: str) -> None:
    room = Room(1)
    await room.come("a0", "a1", "b0")
    await room.give_up(gives_up)
    await room.leave("a0")
    await room.leave("a1")
    await room.leave("b0")
    assert (room.here, room.places.free) == ([], 1)


async def test_who_gives_up_in_the_moment_of_his_turn_leaves_it_to_the_next() -> (
    None
):
    room = Room(1)
    await room.come("a0", "b0", "c0")
    room._tasks["b0"].cancel()
    room._leave["a0"].set()
    await settled()
    assert room.here == ["c0"]
    await room.leave("c0")
    assert room.places.free == 1


def test_a_lane_gives_the_first_of_a_namespace_and_puts_that_namespace_last() -> (
    None
):
    lane: Lane[Key] = Lane()
    keys = [
        run_key(namespace, name) for namespace, name in ("ax", "ay", "bx", "by")
    ]
    for key in keys:
        lane.add(key)
    assert lane.take_of("b") == keys[2]
    assert lane.namespaces == ("a", "b")
    assert [lane.take(), lane.take(), lane.take(), lane.take()] == [
        keys[0],
        keys[3],
        keys[1],
        None,
    ]
