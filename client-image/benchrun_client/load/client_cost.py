"""The client's CPU time and lateness, from a stage's first send to its last answer.

A late client makes the server look slow. So it is recorded how late the load's own event loop comes
to regular ticks. CPU limits show in the kernel's count of throttled periods; a hypervisor that
gives the CPUs to other machines shows in the stolen time.
"""

import asyncio
import os
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from benchrun_client.stage_record import ClientCost

TICK_SECONDS = 0.02
"""Time between ticks. On a virtual machine a wake-up costs an otherwise idle loop 50 to 130 us, and
a busy loop 2 us."""
CPU_STAT_FILES = (
    Path("/sys/fs/cgroup/cpu.stat"),  # version 2
    Path("/sys/fs/cgroup/cpu/cpu.stat"),  # version 1
    Path("/sys/fs/cgroup/cpu,cpuacct/cpu.stat"),
)


def throttled_periods(files: Sequence[Path] = CPU_STAT_FILES) -> int | None:
    """Return in how many periods the process was throttled so far (`nr_throttled`).

    None if the kernel does not count them.
    """
    for file in files:
        try:
            fields = dict(
                line.split(maxsplit=1) for line in file.read_text().splitlines()
            )
            return int(fields["nr_throttled"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def lost_segments(folder: Path = Path("/proc/net")) -> int | None:
    """Return how many TCP segments of this network namespace were lost so far.

    These are the segments sent again (`RetransSegs`), less those that had arrived after all, as the
    receiver reported (`TCPDSACKRecv`, RFC 2883). None if the kernel does not report them.
    """
    try:
        lines = [
            line.split()
            for name in ("snmp", "netstat")
            for line in (folder / name).read_text().splitlines()
        ]
        counts = dict(
            pair
            for each in zip(lines[::2], lines[1::2], strict=True)
            for pair in zip(*each, strict=True)
        )
        return int(counts["RetransSegs"]) - int(counts["TCPDSACKRecv"])
    except (OSError, ValueError, KeyError):
        return None


def node_cpu_seconds(file: Path = Path("/proc/stat")) -> tuple[float, float] | None:
    """Return the CPU seconds that the node used or wanted so far, and the stolen ones among them.

    Both cover all CPUs (proc_stat(5); time of guests is part of user time). None if the kernel does
    not report them.
    """
    try:
        with file.open() as lines:
            fields = lines.readline().split()
        user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    except (OSError, ValueError):
        return None
    per_second = os.sysconf("SC_CLK_TCK")
    return (
        user + nice + system + irq + softirq + steal
    ) / per_second, steal / per_second


class LoopWatch:
    """A watch that notes how late the running event loop comes to regular ticks, in seconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        note: Callable[[float], None],
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._loop = loop
        self._note = note
        self._seconds = tick_seconds
        self._due = loop.time() + tick_seconds
        self._handle = loop.call_at(self._due, self._tick)

    def stop(self) -> None:
        self._handle.cancel()

    def _tick(self) -> None:
        now = self._loop.time()
        # A loop that was held up is late for every tick within that time, as a request would have
        # been.
        while self._due <= now:
            self._note(now - self._due)
            self._due += self._seconds
        self._handle = self._loop.call_at(self._due, self._tick)


class LagProbe:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, tick_seconds: float = TICK_SECONDS
    ) -> None:
        self._start = loop.time()
        self._seconds = tick_seconds
        self._lags = array("d")
        self._watch = LoopWatch(
            loop, note=self._lags.append, tick_seconds=tick_seconds
        )

    def stop(self, *, at: float) -> list[float]:
        """Stop, and return in seconds how late each tick was that was due by loop time `at`."""
        self._watch.stop()
        return self._lags[
            : max(int((at - self._start) / self._seconds), 0)
        ].tolist()


def _usage() -> tuple[
    float, float, Sequence[int | None], tuple[float, float] | None
]:
    return (
        time.perf_counter(),
        time.process_time(),
        (throttled_periods(), lost_segments()),
        node_cpu_seconds(),
    )


class CostWatch:
    """A watch over one stage from the first send to the last answer.

    The load engine's work before and after that is left out.
    """

    def __init__(self, *, requests: int) -> None:
        self._left = requests

    def on_first_send(self) -> None:
        """Begin to measure the running event loop; call this right before the first request."""
        self._probe = LagProbe(asyncio.get_running_loop())
        self._first = _usage()

    def on_answer(self) -> None:
        """Count a request that has ended; stop measuring with the last one."""
        self._left -= 1
        if self._left == 0:
            self._last_time = asyncio.get_running_loop().time()
            self._last = _usage()

    def cost(self) -> ClientCost:
        """Return the cost; call this when every request has ended.

        Where not every request was sent, the watch ends here.
        """
        if self._left > 0:
            self._left = 1
            self.on_answer()
        (first_wall, first_cpu, first, first_node) = self._first
        (last_wall, last_cpu, last, last_node) = self._last
        node = None
        stolen = None
        if first_node is not None and last_node is not None:
            # Of a CPU that was taken offline the kernel may count less than before.
            node, stolen = (
                max(b - a, 0.0) for a, b in zip(first_node, last_node, strict=True)
            )
        throttled, lost = (
            None if a is None or b is None else b - a
            for a, b in zip(first, last, strict=True)
        )
        return ClientCost(
            cpu_seconds=last_cpu - first_cpu,
            wall_seconds=last_wall - first_wall,
            throttled_periods=throttled,
            lost_segments=None if lost is None else max(lost, 0),
            lags=self._probe.stop(at=self._last_time),
            node_cpu_seconds=node,
            stolen_seconds=stolen,
        )
