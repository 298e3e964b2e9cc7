"""The process the whole cluster lives in: process 1 of the node's namespaces.

The machine knows it by its id and the instant it started, so that an id which was given to another
program since is never taken for the node's. No process is ever looked for by name.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from devcluster.running import wait_until
from devcluster.settings import Settings

RECORD = "node.pid"


@dataclass(frozen=True, kw_only=True)
class NodeProcess:
    """A process of this machine; `started` is in clock ticks since boot."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return _started(self.pid) == self.started


def recorded(settings: Settings) -> NodeProcess | None:
    """Return the cluster's node process, or None when none is recorded or it is not alive."""
    try:
        pid, started = (settings.directory / RECORD).read_text().split()
    except (FileNotFoundError, ValueError):  # ValueError: cut short by a kill
        return None
    process = NodeProcess(pid=int(pid), started=int(started))
    return process if process.alive else None


def record(settings: Settings, pid: int) -> NodeProcess:
    """Record which process the node is, and return it.

    Raises ProcessLookupError when the process has ended.
    """
    started = _started(pid)
    if started is None:
        raise ProcessLookupError(pid)
    (settings.directory / RECORD).write_text(f"{pid} {started}\n")
    return NodeProcess(pid=pid, started=started)


def forget(settings: Settings) -> None:
    """Remove what `record` wrote."""
    (settings.directory / RECORD).unlink(missing_ok=True)


def kill(process: NodeProcess) -> None:
    """Kill the node and, by the kernel's rule for process 1, all that runs in its namespace.

    Its parent is unshare(1), which sits in the same mount namespace and ends by itself a moment
    later; this waits for both, and raises DevclusterError after 60 seconds.
    """
    parent = _parent(process.pid)
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    remedy = (
        f"see what process {process.pid} waits for in /proc/{process.pid}/stack"
    )
    wait_until(
        lambda: not process.alive and not (parent and parent.alive),
        what="the end of the node's processes",
        timeout_seconds=60,
        remedy=remedy,
    )


def _parent(pid: int) -> NodeProcess | None:
    fields = _stat(pid)
    parent = int(fields[1]) if fields else 0
    started = _started(parent)
    return (
        NodeProcess(pid=parent, started=started)
        if parent > 1 and started is not None
        else None
    )


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None when it has ended.

    A process that is dead and not yet collected has ended.
    """
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in ("Z", "X") else None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on; none when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The second field is the program's name in brackets, which may hold blanks and brackets of its
    # own.
    return stat.rpartition(")")[2].split()
