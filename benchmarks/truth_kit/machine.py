"""Instants at which the machine itself stood still or was slow, as a virtual one is while its host is busy.

Nothing that runs on it is to blame for those, so a stage that met one can't show whether the judge blames wrongly. A watcher on each
core, ahead of every other process, finds that it woke late. A core that halts waits longest for its host, so an idle-priority
process keeps each one awake, by work whose CPU time tells how fast the core is meanwhile. Needs root.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

from benchrun.measure import duration_seconds
from benchrun_client.contract import StageRecord

INTERVAL_SECONDS = 0.002
LEAST_STOP_SECONDS = 0.003
"""Shorter ones are the scheduler's."""
LONG_STOP_SECONDS, LONG_IN_ALL_SECONDS = 0.020, 0.060
"""One stop, or all of a stage, from which on it counts as disturbed. Rules begin to doubt a client at 10 ms in a hundredth of its
looks, so several stops of 20 ms; and a mean of 100 ms is 2 % off when every tenth request waits 20 ms."""
WORK = json.dumps({f"key{n}": [n, str(n), n / 7] for n in range(20)})
PIECES, READINGS_A_PIECE = 20, 100
"""Of reading it, tens of milliseconds in all: as a client's work does, it calls for the interpreter, memory and caches."""
SLOW_FACTOR, USUAL_OF_PIECES = 2.5, 500
"""A piece that takes so many times the CPU time of the median of the last ones met a host that ran something else, or lowered its
clock, and did not tell: what it took beyond the median is lost."""
LOST_SHARE = 0.005
"""Of what the work took, from which on a stage counts as slowed: half of the hundredth in which rules doubt a late client. Not of
the stage's time, for the work gets only what others leave of it, and what happens meanwhile it does not see."""
TOLD_LATE_SECONDS = 2.0
"""After the end of a slow piece, at most, its process tells: it is the last to get a core."""
MARGIN_SECONDS = 0.25
"""Before the first request and after the last answer: the servers' counters are read there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """From when until when a core did nothing, or little; Unix seconds."""

    began: float
    ended: float


class _Row(NamedTuple):
    at: float
    """Unix seconds, when the work was done."""
    work_seconds: float
    lost_seconds: float
    slow: tuple[Stop, ...]

    @classmethod
    def read(cls, line: str) -> Self:
        at, work, lost, *slow = line.split()
        return cls(float(at), float(work), float(lost), tuple(Stop(*map(float, each.split("-"))) for each in slow))


class Machine:
    """The stops that were seen so far, and how fast the cores were."""

    def __init__(self, logs: Sequence[Path], works: Sequence[Path]) -> None:
        self._logs, self._works = logs, works
        self._read: dict[Path, Sequence[str]] = {}

    def disturbed(self, record: StageRecord) -> bool:
        """Whether the stage met a long stop, or many; by the watchers, or by the kernel's own count of what its host took."""
        if (record.client.stolen_seconds or 0.0) >= LONG_IN_ALL_SECONDS:
            return True
        lengths = [stop.ended - stop.began for stop in self._stops(record)]
        return max(lengths, default=0.0) >= LONG_STOP_SECONDS or sum(lengths) >= LONG_IN_ALL_SECONDS

    def slowed(self, record: StageRecord) -> bool:
        """Whether the cores lost much of the stage's time that no kernel tells, by the work that keeps them awake."""
        rows = self._rows(record)
        return sum(row.lost_seconds for row in rows) > LOST_SHARE * sum(row.work_seconds for row in rows)

    def slow(self, record: StageRecord) -> Sequence[tuple[float, float]]:
        """From when until when a core was slow or stood still in a stage; Unix seconds."""
        pieces = (piece for row in self._rows(record, TOLD_LATE_SECONDS) for piece in row.slow)
        return [(stop.began, stop.ended) for stop in chain(pieces, self._stops(record))]

    def work_seconds(self, record: StageRecord) -> float | None:
        """CPU time that the work took on average during a stage, but for what was lost; None where it was never done."""
        took = [row.work_seconds - row.lost_seconds for row in self._rows(record)]
        return sum(took) / len(took) if took else None

    def _rows(self, record: StageRecord, later_seconds: float = 0.0) -> Sequence[_Row]:
        """What the processes told that keep the cores awake, during a stage and so long after."""
        begin = record.first_send_unix_us / 1e6
        end = begin + duration_seconds(record) + later_seconds
        rows: list[_Row] = []
        for work in self._works:
            lines = self._lines(work, end)
            first, last = bisect_left(lines, begin, key=_instant), bisect_right(lines, end, key=_instant)
            rows += map(_Row.read, lines[first:last])
        return rows

    def _lines(self, work: Path, until: float) -> Sequence[str]:
        """What it told, at least until then. It is long, and asked for at every stage."""
        lines = self._read.get(work, ())
        if not lines or _instant(lines[-1]) <= until:
            lines = self._read[work] = work.read_text().splitlines()
        return lines

    def _stops(self, record: StageRecord) -> Iterator[Stop]:
        begin = record.first_send_unix_us / 1e6 - MARGIN_SECONDS
        end = begin + duration_seconds(record) + 2 * MARGIN_SECONDS
        for log in self._logs:
            stops = (Stop(*map(float, line.split())) for line in log.read_text().splitlines())
            yield from (stop for stop in stops if stop.began < end and stop.ended > begin)


def _instant(line: str) -> float:
    return float(line.partition(" ")[0])


@contextmanager
def watched(*, every_core: bool = True) -> Iterator[Machine]:
    """Watch every core, or none, for as long as the context is open."""
    with tempfile.TemporaryDirectory(prefix="truth-machine-") as folder:
        logs: dict[str, list[Path]] = {"watch": [], "awake": []}
        processes = []
        try:
            for core in sorted(os.sched_getaffinity(0)) if every_core else ():
                for role, files in logs.items():
                    files.append(Path(folder) / f"{role}-{core}")
                    with files[-1].open("w") as log:
                        processes.append(subprocess.Popen([sys.executable, __file__, role, str(core)], stdout=log))
            yield Machine(logs["watch"], logs["awake"])
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _watch() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    before, parent = time.monotonic(), os.getppid()
    while os.getppid() == parent:
        time.sleep(INTERVAL_SECONDS)
        now = time.monotonic()
        late = now - before - INTERVAL_SECONDS
        if late >= LEAST_STOP_SECONDS:
            ended = time.time()
            print(f"{ended - late:.4f} {ended:.4f}", flush=True)
        before = time.monotonic()


def _keep_awake() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    parent, last = os.getppid(), deque[float](maxlen=USUAL_OF_PIECES)
    while os.getppid() == parent:
        pieces = [_piece() for _ in range(PIECES)]
        last.extend(seconds for seconds, _ in pieces)
        usual = median(last)
        slow = [(seconds - usual, stop) for seconds, stop in pieces if seconds > SLOW_FACTOR * usual]
        work, lost = sum(seconds for seconds, _ in pieces), sum(seconds for seconds, _ in slow)
        stops = "".join(f" {stop.began:.3f}-{stop.ended:.3f}" for _, stop in slow)
        print(f"{time.time():.3f} {work:.6f} {lost:.6f}{stops}", flush=True)


def _piece() -> tuple[float, Stop]:
    """Its CPU time, and when it was."""
    began, before = time.time(), time.thread_time()
    for _ in range(READINGS_A_PIECE):
        json.loads(WORK)
    return time.thread_time() - before, Stop(began, time.time())


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    _watch() if sys.argv[1] == "watch" else _keep_awake()
