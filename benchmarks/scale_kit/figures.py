"""What the benchmark finds, the limits it must keep, and how the figures come from what was seen."""

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
        """Every limit that is not kept."""
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
    """What the operator used in some time, and the pages that it read."""

    seconds: float
    cpu_seconds: float
    pages: int = 0

    @property
    def cores(self) -> float:
        """CPU seconds a second."""
        return self.cpu_seconds / self.seconds


def page_cpu_seconds(quiet: Window) -> float:
    """What a page takes, where nothing else happens: with all that is used, so that it is never
    taken for less than it is."""
    return quiet.cpu_seconds / max(1, quiet.pages)


def whole_cores(window: Window, *, targets: int, a_page: float) -> float:
    """Cores, had every target been read every second: on a busy host some were not."""
    missed = max(0.0, targets * window.seconds - window.pages)
    return window.cores + missed * a_page / window.seconds


Buckets = Mapping[float, float]
"""Of a histogram: how many were at most so long."""


def added(histograms: Iterable[Buckets]) -> Buckets:
    """Several processes' histograms as one."""
    total = Counter[float]()
    for each in histograms:
        total.update(each)
    return total


def percentile(buckets: Buckets, share: float) -> float:
    """The bound of the bucket that so large a share is in."""
    wanted = share * max(buckets.values(), default=0.0)
    return min((bound for bound, count in buckets.items() if count >= wanted), default=0.0)


def writes_by_run(requests: Iterable[Request]) -> Counter[str]:
    """Requests that change something of a run; what changes `status.live` alone is not counted."""
    return Counter(r.run for r in requests if r.run and r.writes and not r.live_only)
