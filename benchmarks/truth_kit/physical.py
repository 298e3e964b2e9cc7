"""Real disturbances of a process by its machine and network.

They are quotas, stops, neighbours that burn cores, delayed and lost packets. Needs root. Nothing
outside of this benchmark's own processes is touched: packets are lost in a network namespace of its
own.
"""

import asyncio
import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CPU_CGROUP = Path(
    "/sys/fs/cgroup/cpu"
    if Path("/sys/fs/cgroup/cpu").is_dir()
    else "/sys/fs/cgroup"
)
UNIFIED_CGROUP = next(
    filter(Path.is_dir, map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")))
)
PERIOD_US = 100_000
WEIGHTS = {"cpu.shares": 262_144, "cpu.weight": 10_000}
"""Largest weights in the two versions of control groups: other processes take none of the share."""
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of unshare(2)."""
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
RESET_ON_FORK = 1
SLICE_NS = 100_000
_LIBC = ctypes.CDLL(None, use_errno=True)
PIECE_BYTES = 65536


def own_network() -> None:
    """Move this process into a network namespace whose only interface is its own loopback.

    All that it starts from now on is in there, too.
    """
    if _LIBC.unshare(NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare of the network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@contextmanager
def losing(port: int, percent: float) -> Iterator[None]:
    """Lose this share of all packets to and from a port. Call it only in `own_network`."""
    sides = ("--dport", "--sport")
    with ExitStack() as stack:
        for side in sides if percent else ():
            rule = [
                "INPUT",
                "-i",
                "lo",
                "-p",
                "tcp",
                side,
                str(port),
                "-m",
                "statistic",
                "--mode",
                "random",
            ]
            rule += ["--probability", str(percent / 100), "-j", "DROP"]
            subprocess.run(["iptables", "--wait", "-A", *rule], check=True)
            stack.callback(
                subprocess.run, ["iptables", "--wait", "-D", *rule], check=True
            )
        yield


@contextmanager
def _group(root: Path, name: str) -> Iterator[Path]:
    """Create a control group and yield its path; its processes go back to the root afterwards."""
    group = root / f"benchrun-truth-{name}-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (root / "cgroup.procs").write_text(process)
        group.rmdir()


@contextmanager
def cpu_quota(name: str, share: float) -> Iterator[Path]:
    """Create a control group that gets this share of a core, and yield its path."""
    with _group(CPU_CGROUP, name) as group:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
        else:
            (group / "cpu.max").write_text(f"{int(share * PERIOD_US)} {PERIOD_US}")
        for weight in filter(Path.exists, (group / name for name in WEIGHTS)):
            weight.write_text(str(WEIGHTS[weight.name]))
        yield group


@contextmanager
def counting_waits(process: Process) -> Iterator[Path]:
    """Put a process into a control group of version 2, and yield the group's path.

    It limits nothing, and counts how long the process waits for a core.
    """
    with _group(UNIFIED_CGROUP, str(process.pid)) as group:
        (group / "cgroup.procs").write_text(str(process.pid))
        yield group


def waited_seconds(group: Path) -> float:
    """Return how long any process of a control group waited for a core.

    A cAdvisor reads the same file.
    """
    some = next(
        line
        for line in (group / "cpu.pressure").read_text().splitlines()
        if line.startswith("some")
    )
    return int(some.rpartition("total=")[2]) / 1e6


def core_wait_seconds(process: Process) -> float:
    """Return how long the main thread of a process has waited for a core; 0 once it has ended."""
    try:
        words = Path(f"/proc/{process.pid}/schedstat").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(words[1]) / 1e9


def cpu_periods(group: Path) -> tuple[float, float]:
    """Return the periods of a control group, and how many of them were throttled.

    A cAdvisor reads the same file.
    """
    counted = dict(
        line.split() for line in (group / "cpu.stat").read_text().splitlines()
    )
    return float(counted["nr_periods"]), float(counted["nr_throttled"])


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run so many processes of ordinary priority that never rest."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Standstill:
    """From when until when a process stands still, in seconds after the first measured request."""

    from_second: float
    until_second: float


async def stand_still(
    process: Process, stop: Standstill, *, began_unix: float
) -> None:
    """Stop the process for so long, like a machine that has more urgent work.

    `began_unix` is when the first measured request was sent, in Unix seconds.
    """
    await asyncio.sleep(max(0.0, began_unix + stop.from_second - time.time()))
    process.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(max(0.0, began_unix + stop.until_second - time.time()))
    finally:
        process.send_signal(signal.SIGCONT)


def run_ahead(process: Process, *, with_threads: bool = False) -> None:
    """Let a process run before all processes of usual niceness.

    It is woken at once even while others that run ahead compute, as a client does between stages:
    by slices of 0.1 ms (Linux 6.12). What it starts does not run ahead, unless `with_threads`.
    """
    # struct sched_attr: size, policy, flags, niceness, priority, runtime, deadline, period;
    # sched_setattr(2).
    flags = 0 if with_threads else RESET_ON_FORK
    attributes = struct.pack(
        "IIQiIQQQ", 48, os.SCHED_OTHER, flags, -20, 0, SLICE_NS, 0, 0
    )
    threads = [
        int(each.name) for each in Path(f"/proc/{process.pid}/task").iterdir()
    ]
    for thread in threads if with_threads else [process.pid]:
        failed = _LIBC.syscall(
            SCHED_SETATTR[os.uname().machine], thread, attributes, 0
        )
        if (
            failed and ctypes.get_errno() != errno.ESRCH
        ):  # A thread may end at any time.
            raise OSError(ctypes.get_errno(), "sched_setattr")


@asynccontextmanager
async def delaying(port: int, target: int, delay_ms: float) -> AsyncIterator[None]:
    """Forward connections from `port` to `target`, with this delay each way.

    The delay is half of the round trip that is added. Like a wire, it waits for no core.
    """
    words = (sys.executable, __file__, str(port), str(target), str(delay_ms))
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()  # It listens.
    os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(2))
    try:
        yield
    finally:
        process.kill()
        await process.communicate()


async def _delay(port: int, target: int, delay_seconds: float) -> None:
    loop = asyncio.get_running_loop()

    async def pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while piece := await reader.read(PIECE_BYTES):
            loop.call_later(delay_seconds, writer.write, piece)
        loop.call_later(delay_seconds, writer.close)

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        with suppress(ConnectionError):
            await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(
        _delay(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000)
    )
