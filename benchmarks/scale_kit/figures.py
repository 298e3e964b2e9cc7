"""The figures of the benchmark, their limits, and how they are computed from what was seen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from _outcome import beyond
from runs_kit.proxy import Request

TARGETS = 500


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed; its keys are these names."""

    runs: int
    bare_seconds: float
    """Time that a script that does nothing else takes to make the same number of runs with plan,
    NetworkPolicy, Service and Job; half of them before the operator, half after it. As in the next
    figure, time in which the process waited for a core does not count: other hosts are less
    busy."""
    children_seconds: float
    """Time from the apply of the first of these runs until the last of their children exists."""
    children_ratio: float
    """Ratio of `children_seconds` to `bare_seconds`."""
    writes_per_run: int
    """Most modifying requests of the operator for one run; writes of status.live alone are not
    counted."""
    reconcile_p50_ms: float
    reconcile_p99_ms: float
    """99th percentile over all reconciles: the bound of the bucket that contains it. It includes
    the API server's time."""
    rss_mib: float
    """Most resident memory of the operator at any time (VmHWM)."""
    cpu_cores: float
    """CPU use in cores while all runs are active; half of them are scraped every second and go
    through their stages."""
    restart_converged_seconds: float
    """Time from the start of a new process, with all runs active and many ended, until it is ready,
    follows every client and has nothing left to reconcile. Time in which it waited for a core does
    not count."""
    restart_writes: int
    """Modifying requests from then until all has been quiet for a while."""
    scrape_cores_500: float
    """CPU use in cores to read 500 pages a second, computed from the cost of a page where nothing
    else happens except showing live figures and listening to clients."""
    other_tenant_release_seconds: float
    """Longest time from the last record of another tenant's run until its server is deleted: while
    the runs are applied, while their clients and servers become ready, and while they end. Time in
    which the operator waited for a core does not count."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        return beyond(self, at_most=LIMITS)


LIMITS = {
    "children_ratio": 1.3,
    "writes_per_run": 24,
    "rss_mib": 180.0,
    "cpu_cores": 0.6,
    "restart_converged_seconds": 10.0,
    "restart_writes": 0,
    "scrape_cores_500": 0.6,
    "other_tenant_release_seconds": 2.0,
}


@dataclass(frozen=True, slots=True)
class Window:
    """The operator's CPU time in a stretch of time, and the pages it read."""

    seconds: float
    cpu_seconds: float
    pages: int = 0

    @property
    def cores(self) -> float:
        """Return the CPU seconds used per second."""
        return self.cpu_seconds / self.seconds


def page_cpu_seconds(quiet: Window) -> float:
    """Return the CPU seconds that reading a page takes, from a window with nothing else happening.

    All CPU use counts, so that the figure is never too small.
    """
    return quiet.cpu_seconds / max(1, quiet.pages)


def whole_cores(window: Window, *, targets: int, a_page: float) -> float:
    """Return the cores the operator would have used had it read every target every second.

    On a busy host some pages were not read; each counts with `a_page` CPU seconds.
    """
    missed = max(0.0, targets * window.seconds - window.pages)
    return window.cores + missed * a_page / window.seconds


Buckets = Mapping[float, float]
"""Buckets of a histogram: upper bound -> number of values up to it."""


def added(histograms: Iterable[Buckets]) -> Buckets:
    """Add up several processes' histograms."""
    total = Counter[float]()
    for each in histograms:
        total.update(each)
    return total


def percentile(buckets: Buckets, share: float) -> float:
    """Return the upper bound of the histogram bucket that holds this share (0 to 1)."""
    wanted = share * max(buckets.values(), default=0.0)
    return min(
        (bound for bound, count in buckets.items() if count >= wanted), default=0.0
    )


def writes_by_run(requests: Iterable[Request]) -> Counter[str]:
    """Count the requests that change something of a run, by run.

    Changes of `status.live` alone do not count.
    """
    return Counter(
        r.run for r in requests if r.run and r.writes and not r.live_only
    )
