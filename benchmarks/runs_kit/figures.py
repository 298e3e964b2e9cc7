"""The figures of the benchmark, and the limits it must keep."""

from collections.abc import Iterator
from dataclasses import dataclass

from _outcome import beyond


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed; its keys are these names."""

    runs: int
    create_seconds: float
    """Time that the benchmark itself takes to create the same number of runs with plan,
    NetworkPolicy, Service and Job, and to write a status to each: the API server's share. It is the
    median of several rounds, because a host is slow at times."""
    children_seconds: float
    """Time from the apply of the last run until plan, Service and client Job of every run exist."""
    children_ratio: float
    """Ratio of `children_seconds` to `create_seconds`."""
    server_children_seconds: float
    """Time from the last client pod becoming ready until the Deployment of every run exists."""
    server_children_ratio: float
    """Ratio of `server_children_seconds` to `create_seconds`."""
    rss_mib: float
    """Most resident memory of the operator at any time (VmHWM)."""
    cpu_cores: float
    """Mean CPU use, in cores, over the window in which every server is scraped."""
    writes_per_run: int
    """Most modifying requests of the operator for one run; writes of status.live alone are not
    counted."""
    requests_per_waiting_run_per_minute: float
    decide_p99_ms: float
    """99th percentile of the CPU time that a reconcile spends on deciding about a run: the bound of
    the bucket that contains it."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        return beyond(self, at_most=LIMITS)


LIMITS = {
    "children_ratio": 2.0,
    "server_children_ratio": 1.0,
    "rss_mib": 100.0,
    "cpu_cores": 0.5,
    "writes_per_run": 24,
    "requests_per_waiting_run_per_minute": 0.0,
    "decide_p99_ms": 20.0,
}
