"""Instants at which the machine itself stood still, as a virtual one does while its host is busy.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchrun.measure import duration_seconds
from benchrun_client.contract import StageRecord

INTERVAL_SECONDS = 0.002
LEAST_STOP_SECONDS = 0.003
"""Shorter ones are the scheduler's."""
LONG_STOP_SECONDS, LONG_IN_ALL_SECONDS = 0.020, 0.060
"""One stop, or all of a stage, from which on it counts as disturbed. Rules begin to doubt a client at 10 ms in a hundredth of its
looks, so several stops of 20 ms; and a mean of 100 ms is 2 % off when every tenth request waits 20 ms."""
WORK = json.dumps({f"key{n}": [n, str(n), n / 7] for n in range(20)})
WORK_TIMES = 2000
"""Of reading it, tens of milliseconds: as a client's work does, it calls for the interpreter, memory and caches."""
MARGIN_SECONDS = 0.25
"""Before the first request and after the last answer: the servers' counters are read there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """From when until when a core did nothing; Unix seconds."""

    began: float
    ended: float


class Machine:
    """The stops that were seen so far, and how fast the cores were."""

    def __init__(self, logs: Sequence[Path], works: Sequence[Path]) -> None:
        self._logs, self._works = logs, works

    def disturbed(self, record: StageRecord) -> bool:
        """Whether the stage met a long stop, or many; by the watchers, or by the kernel's own count of what its host took."""
        if (record.client.stolen_seconds or 0.0) >= LONG_IN_ALL_SECONDS:
            return True
        begin = record.first_send_unix_us / 1e6 - MARGIN_SECONDS
        end = begin + duration_seconds(record) + 2 * MARGIN_SECONDS
        lengths = [stop.ended - stop.began for stop in self._stops() if stop.began < end and stop.ended > begin]
        return max(lengths, default=0.0) >= LONG_STOP_SECONDS or sum(lengths) >= LONG_IN_ALL_SECONDS

    def work_seconds(self) -> Callable[[StageRecord], float | None]:
        """Of a stage: CPU time that the work took on average meanwhile; None where it was never done."""
        lines = (line for work in self._works for line in work.read_text().splitlines())
        rows = [tuple(map(float, line.split())) for line in lines]

        def mean_seconds(record: StageRecord) -> float | None:
            begin = record.first_send_unix_us / 1e6
            end = begin + duration_seconds(record)
            took = [seconds for at, seconds in rows if begin <= at <= end]
            return sum(took) / len(took) if took else None

        return mean_seconds

    def _stops(self) -> Iterator[Stop]:
        for log in self._logs:
            yield from (Stop(*map(float, line.split())) for line in log.read_text().splitlines())


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
    parent = os.getppid()
    while os.getppid() == parent:
        before = time.thread_time()
        for _ in range(WORK_TIMES):
            json.loads(WORK)
        print(f"{time.time():.3f} {time.thread_time() - before:.6f}", flush=True)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    _watch() if sys.argv[1] == "watch" else _keep_awake()
