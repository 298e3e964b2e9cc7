"""The process of a load: its beginning, its end, its last words. It is a small script here."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.failures import RunFailure
from benchrun_client.rust import child
from benchrun_client.rust.child import BEGINNING, Watched, run_to_end

BEGINS = f'echo "INFO {BEGINNING.decode()} requests=3" >&2'


def script(folder: Path, *lines: str) -> Path:
    file = folder / "program"
    file.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    file.chmod(0o755)
    return file


async def run(program: Path, *, begun: list[float] | None = None) -> Watched:
    told = [] if begun is None else begun
    return await run_to_end([program], environment=os.environ, on_begin=lambda: told.append(time.perf_counter()))


async def test_the_beginning_is_told_once_when_it_is_said(tmp_path: Path) -> None:
    begun: list[float] = []
    before = time.perf_counter()
    watched = await run(script(tmp_path, "sleep 0.2", BEGINS, "sleep 0.2", BEGINS), begun=begun)
    assert len(begun) == 1
    assert watched.began is not None
    assert before + 0.2 <= watched.began <= begun[0] <= time.perf_counter() - 0.15


def test_a_beginning_in_two_pieces_is_one() -> None:
    watched = Watched()
    middle = len(BEGINNING) // 2
    assert [watched.heard(BEGINNING[:middle]), watched.heard(BEGINNING[middle:])] == [False, True]


def test_only_the_end_of_what_it_says_is_kept() -> None:
    watched = Watched()
    watched.heard(b"x" * 1_000_000)
    watched.heard(b"the end")
    assert len(watched.last_words) == child.LAST_WORDS_BYTES
    assert watched.last_words.endswith(b"xthe end")


async def test_what_it_uses_is_read_from_its_start_on(tmp_path: Path) -> None:
    busy = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"
    watched = await run(script(tmp_path, BEGINS, busy))
    used = [reading.cpu_seconds for reading in watched.readings]
    assert used == sorted(used)
    assert used[-1] > 0.05


async def test_one_that_fails_is_quoted_on_one_line(tmp_path: Path) -> None:
    program = script(tmp_path, BEGINS, "echo 'Error: no such' >&2; echo '  file' >&2; exit 7")
    with pytest.raises(RunFailure, match=r"ended with exit code 7: .*Error: no such file$"):
        await run(program)


async def test_one_that_says_a_lot_is_quoted_in_part(tmp_path: Path) -> None:
    program = script(tmp_path, "head -c 300000 /dev/zero | tr '\\0' x >&2; echo ' at last' >&2; exit 1")
    with pytest.raises(RunFailure) as raised:
        await run(program)
    assert raised.value.message.endswith("x at last")
    assert len(raised.value.message) < 700


async def test_one_that_never_begins_has_failed(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match="exit code 0: it said nothing"):
        await run(script(tmp_path, "exit 0"))


@pytest.mark.parametrize("stubborn", [False, True])
async def test_when_time_is_up_it_ends_and_is_waited_for(
    tmp_path: Path, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "GRACE_SECONDS", 0.2)
    trap = "trap '' TERM" if stubborn else f"trap 'echo > {tmp_path}/asked; exit' TERM"
    program = script(tmp_path, trap, f"echo $$ > {tmp_path}/pid", BEGINS, "while :; do :; done")
    began = asyncio.Event()
    running = asyncio.ensure_future(run_to_end([program], environment=os.environ, on_begin=began.set))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert (tmp_path / "asked").exists() is not stubborn


async def test_one_that_is_not_wanted_any_more_while_it_begins_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def slowly(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await create(*words, **options)
        begun.append(process)
        running.cancel()
        await asyncio.sleep(0)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    running = asyncio.ensure_future(run(script(tmp_path, "while :; do :; done")))
    with pytest.raises(asyncio.CancelledError):
        await running
    (process,) = begun
    assert process.returncode is not None
