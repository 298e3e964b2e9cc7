"""The figures of the benchmark, and the limits it must keep."""

from collections.abc import Iterator
from dataclasses import dataclass

from _outcome import beyond


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed; its keys are these names."""

    runs: int
    create_seconds: float
    """What it takes the benchmark itself to create as many runs with plan, NetworkPolicy, Service
    and Job, and to write each a status: what the API server takes. The median of some rounds, for a
    host is slow at times."""
    children_seconds: float
    """From the apply of the last run until plan, Service and client Job of every run exist."""
    children_ratio: float
    """Of that to `create_seconds`."""
    server_children_seconds: float
    """From the last client pod becoming ready until the Deployment of every run exists."""
    server_children_ratio: float
    """Of that to `create_seconds`."""
    rss_mib: float
    """Most resident memory of the operator at any time (VmHWM)."""
    cpu_cores: float
    """Mean over the window in which every server is scraped."""
    writes_per_run: int
    """Requests of the operator that change something, of the run that took most; status.live alone
    is not counted."""
    requests_per_waiting_run_per_minute: float
    decide_p99_ms: float
    """99th percentile of the CPU time that deciding on a run takes in a pass: the bound of the
    bucket that it lies in."""

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
