"""Instants at which the machine itself stood still or was slow, as a virtual one is while its host
is busy.

Nothing that runs on it is to blame for those, so a stage that met one can't show whether the judge
blames wrongly. A watcher on each core, ahead of every other process, finds that it woke late, and
that a fixed work takes more CPU time than usual. A core that halts waits longest for its host, so
an idle-priority process keeps each one awake. Needs root."""

import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, Self

from benchrun.measure import duration_seconds
from benchrun_client.contract import StageRecord

INTERVAL_SECONDS = 0.002
LEAST_STOP_SECONDS = 0.003
"""Shorter ones are the scheduler's."""
LONG_STOP_SECONDS, LONG_IN_ALL_SECONDS = 0.020, 0.060
"""One stop, or all of a stage, from which on it counts as disturbed. Rules begin to doubt a client
at 10 ms in a hundredth of its looks, so several stops of 20 ms; and a mean of 100 ms is 2 % off
when every tenth request waits 20 ms."""
WORK = json.dumps({f"key{n}": [n, str(n), n / 7] for n in range(20)})
READINGS, WAKES_A_PIECE = 3, 3
"""Of reading it, 50 microseconds a wake: as a client's work does, it calls for the interpreter,
memory and caches."""
SLOW_FACTOR, USUAL_OF_PIECES = 1.75, 500
"""A piece that takes so many times the CPU time of the median of the last ones met a host that ran
something else, or lowered its clock, and did not tell."""
LOST_SHARE = 0.005
"""Of a stage's time, from which on it counts as slowed: half of the hundredth in which rules doubt
a late client."""
PIECES_A_ROW = 50
TOLD_LATE_SECONDS = 1.0
"""After the end of a piece, at most, its row is written."""
MARGIN_SECONDS = 0.25
"""Before the first request and after the last answer: the servers' counters are read there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """From when until when a core did nothing, or little; Unix seconds."""

    began: float
    ended: float


class _Row(NamedTuple):
    """Some pieces of work, one after the other."""

    at: float
    """Unix seconds, when the last ended."""
    usual_seconds: float
    """CPU time that a piece took, of those that were not slow."""
    watched_seconds: float
    lost_seconds: float
    """Of those, by a slower core."""
    slow: tuple[Stop, ...]
    stops: tuple[Stop, ...]

    @classmethod
    def read(cls, line: str) -> Self:
        at, usual, watched, lost, slow, stops = line.split()
        return cls(
            float(at), float(usual), float(watched), float(lost), _spans(slow), _spans(stops)
        )


def _spans(word: str) -> tuple[Stop, ...]:
    """Two instants each; a row without any has a dot."""
    return tuple(Stop(*map(float, each.split("-"))) for each in word.split(",") if each != ".")


class Machine:
    """The stops that were seen so far, and how fast the cores were."""

    def __init__(self, logs: Sequence[Path]) -> None:
        """`logs`: one of each core."""
        self._logs = logs
        self._read: dict[Path, Sequence[str]] = {}

    def disturbed(self, record: StageRecord) -> bool:
        """Whether the stage met a long stop, or many; by the watchers, or by the kernel's own count
        of what its host took."""
        if (record.client.stolen_seconds or 0.0) >= LONG_IN_ALL_SECONDS:
            return True
        lengths = [stop.ended - stop.began for stop in self._stops(record)]
        return max(lengths, default=0.0) >= LONG_STOP_SECONDS or sum(lengths) >= LONG_IN_ALL_SECONDS

    def slowed(self, record: StageRecord) -> bool:
        """Whether the cores lost much of the stage's time that no kernel tells."""
        rows = self._rows(record)
        return sum(row.lost_seconds for row in rows) > LOST_SHARE * sum(
            row.watched_seconds for row in rows
        )

    def slow(self, record: StageRecord) -> Sequence[tuple[float, float]]:
        """From when until when a core was slow or stood still in a stage; Unix seconds."""
        pieces = (piece for row in self._rows(record, TOLD_LATE_SECONDS) for piece in row.slow)
        return [(stop.began, stop.ended) for stop in chain(pieces, self._stops(record))]

    def work_seconds(self, record: StageRecord) -> float | None:
        """CPU time that a piece of the work took on average during a stage, where the cores were
        not slow; None where it was never done."""
        took = [row.usual_seconds for row in self._rows(record)]
        return sum(took) / len(took) if took else None

    def _rows(self, record: StageRecord, later_seconds: float = 0.0) -> Sequence[_Row]:
        """What the watchers told during a stage and so long after."""
        begin = record.first_send_unix_us / 1e6
        end = begin + duration_seconds(record) + later_seconds
        rows: list[_Row] = []
        for log in self._logs:
            lines = self._lines(log, end)
            first, last = (
                bisect_left(lines, begin, key=_instant),
                bisect_right(lines, end, key=_instant),
            )
            rows += map(_Row.read, lines[first:last])
        return rows

    def _lines(self, log: Path, until: float) -> Sequence[str]:
        """What it told, at least until then. It is long, and asked for at every stage."""
        lines = self._read.get(log, ())
        if not lines or _instant(lines[-1]) <= until:
            lines = self._read[log] = log.read_text().splitlines()
        return lines

    def _stops(self, record: StageRecord) -> Iterator[Stop]:
        begin = record.first_send_unix_us / 1e6 - MARGIN_SECONDS
        end = begin + duration_seconds(record) + 2 * MARGIN_SECONDS
        for row in self._rows(record, MARGIN_SECONDS + TOLD_LATE_SECONDS):
            yield from (stop for stop in row.stops if stop.began < end and stop.ended > begin)


def _instant(line: str) -> float:
    return float(line.partition(" ")[0])


@contextmanager
def watched(*, every_core: bool = True) -> Iterator[Machine]:
    """Watch every core, or none, for as long as the context is open."""
    with tempfile.TemporaryDirectory(prefix="truth-machine-") as folder:
        logs: list[Path] = []
        processes = []
        try:
            for core in sorted(os.sched_getaffinity(0)) if every_core else ():
                logs.append(Path(folder) / f"core-{core}")
                for role, written in (("watch", logs[-1]), ("awake", Path(os.devnull))):
                    with written.open("w") as log:
                        processes.append(
                            subprocess.Popen(
                                [sys.executable, __file__, role, str(core)], stdout=log
                            )
                        )
            yield Machine(logs)
        finally:
            for process in processes:
                process.kill()
                process.wait()


class _Piece(NamedTuple):
    """Work of some wakes."""

    began: float
    ended: float
    cpu_seconds: float
    stops: Sequence[Stop]


def _watch() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    parent, last = os.getppid(), deque[float](maxlen=USUAL_OF_PIECES)
    while os.getppid() == parent:
        pieces = [_piece() for _ in range(PIECES_A_ROW)]
        last.extend(piece.cpu_seconds for piece in pieces)
        usual = median(last)
        slow = [piece for piece in pieces if piece.cpu_seconds > SLOW_FACTOR * usual]
        others = [piece.cpu_seconds for piece in pieces if piece not in slow] or [usual]
        lost = sum((piece.ended - piece.began) * (1 - usual / piece.cpu_seconds) for piece in slow)
        ended, watched_seconds = pieces[-1].ended, pieces[-1].ended - pieces[0].began
        slow_spans = _told(Stop(piece.began, piece.ended) for piece in slow)
        stops = _told(stop for piece in pieces for stop in piece.stops)
        print(
            f"{ended:.3f} {fmean(others):.9f} {watched_seconds:.4f} {lost:.6f} {slow_spans} "
            f"{stops}",
            flush=True,
        )


def _piece() -> _Piece:
    began, cpu_seconds, stops = time.time(), 0.0, []
    for _ in range(WAKES_A_PIECE):
        before = time.monotonic()
        time.sleep(INTERVAL_SECONDS)
        late = time.monotonic() - before - INTERVAL_SECONDS
        if late >= LEAST_STOP_SECONDS:
            ended = time.time()
            stops.append(Stop(ended - late, ended))
        worked = time.thread_time()
        for _ in range(READINGS):
            json.loads(WORK)
        cpu_seconds += time.thread_time() - worked
    return _Piece(began, time.time(), cpu_seconds, stops)


def _told(spans: Iterable[Stop]) -> str:
    return ",".join(f"{span.began:.4f}-{span.ended:.4f}" for span in spans) or "."


def _keep_awake() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    parent = os.getppid()
    while os.getppid() == parent:
        json.loads(WORK)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    _watch() if sys.argv[1] == "watch" else _keep_awake()
