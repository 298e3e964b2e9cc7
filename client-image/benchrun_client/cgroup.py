"""What the kernel lets the client have: a CPU limit shows in the figures of whoever measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

CPU_STAT_FILES = (
    Path("/sys/fs/cgroup/cpu.stat"),  # version 2
    Path("/sys/fs/cgroup/cpu/cpu.stat"),  # version 1
    Path("/sys/fs/cgroup/cpu,cpuacct/cpu.stat"),
)


def throttled_periods(files: Sequence[Path] = CPU_STAT_FILES) -> int | None:
    """Periods in which the process was throttled so far (`nr_throttled`); None when the kernel does not tell."""
    for file in files:
        try:
            fields = dict(line.split(maxsplit=1) for line in file.read_text().splitlines())
            return int(fields["nr_throttled"])
        except (OSError, ValueError, KeyError):
            continue
    return None
