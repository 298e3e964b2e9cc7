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
    """Until a script that does nothing else has made as many runs with plan, NetworkPolicy,
    Service and Job; half of them before, half of them after the operator. As in the next, time in
    which the process waited for a core does not count: other hosts are less busy."""
    children_seconds: float
    """From the first of as many runs being applied until the last of those children is there."""
    children_ratio: float
    """Of that to `bare_seconds`."""
    writes_per_run: int
    """Requests of the operator that change something, of the run that took most; status.live alone
    is not counted."""
    reconcile_p50_ms: float
    reconcile_p99_ms: float
    """Of all passes: the bound of the bucket that it lies in. The API server's time is in it."""
    rss_mib: float
    """Most resident memory of the operator at any time (VmHWM)."""
    cpu_cores: float
    """While all runs are active, half of them scraped every second and going through their
    stages."""
    restart_converged_seconds: float
    """From a new process with all runs active and many that have ended, until it is ready, follows
    every client and has nothing left to look at; without the time in which it waited for a core."""
    restart_writes: int
    """From then until all has been quiet for a while."""
    scrape_cores_500: float
    """What it takes to read 500 pages a second, by what a page takes where nothing else happens but
    that live figures are shown and clients are listened to."""
    other_tenant_release_seconds: float
    """From the last record of another tenant's run until its server is deleted, at worst: while the
    runs are applied, while their clients and their servers become ready, and while they end. Here,
    too, the time in which the operator waited for a core does not count."""

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
"""Of a histogram: how many were at most so long."""


def added(histograms: Iterable[Buckets]) -> Buckets:
    """Add up several processes' histograms."""
    total = Counter[float]()
    for each in histograms:
        total.update(each)
    return total


def percentile(buckets: Buckets, share: float) -> float:
    """Return the upper bound of the histogram bucket that holds this share (0 to 1)."""
    wanted = share * max(buckets.values(), default=0.0)
    return min((bound for bound, count in buckets.items() if count >= wanted), default=0.0)


def writes_by_run(requests: Iterable[Request]) -> Counter[str]:
    """Count the requests that change something of a run, by run.

    Changes of `status.live` alone do not count.
    """
    return Counter(r.run for r in requests if r.run and r.writes and not r.live_only)
