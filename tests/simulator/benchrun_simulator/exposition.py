"""Counters, gauges and histograms in Prometheus' text format, with fixed labels.

It replaces the client library, which the image does without; the lines are the same, `_created`
series included.
"""

import os
import resource
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

Labels = dict[str, str]
Series = tuple[Labels, float]

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


def sample(name: str, labels: Labels, value: float) -> str:
    """Return one line of the format; labels are sorted by name."""
    inside = ",".join(
        f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items())
    )
    return (
        f"{name}{{{inside}}} {float(value)!r}\n"
        if inside
        else f"{name} {float(value)!r}\n"
    )


def head(name: str, kind: str, about: str) -> str:
    """Return the two comment lines that open a family."""
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def gauge(name: str, about: str, series: Iterable[Series]) -> str:
    """Return a gauge family with one line for each of the series."""
    return head(name, "gauge", about) + "".join(
        sample(name, labels, value) for labels, value in series
    )


def counter(
    name: str, about: str, series: Iterable[Series], *, created: float | None
) -> str:
    """Return a counter family (`name` without `_total`).

    It has a companion family `_created` unless `created` is None.
    """
    series = list(series)
    lines = head(f"{name}_total", "counter", about)
    lines += "".join(
        sample(f"{name}_total", labels, value) for labels, value in series
    )
    if created is not None:
        lines += gauge(
            f"{name}_created", about, [(labels, created) for labels, _ in series]
        )
    return lines


class Histogram:
    """Observations in buckets; `bounds` are upper limits, inclusive, without +Inf."""

    def __init__(self, name: str, about: str, bounds: Iterable[float]) -> None:
        self.name = name
        self._about = about
        self._bounds = [float(bound) for bound in bounds]
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def render(self, labels: Labels, *, created: float) -> str:
        """Return the family's lines: cumulative buckets, count, sum, created."""
        lines = [head(self.name, "histogram", self._about), *self._buckets(labels)]
        lines.append(sample(f"{self.name}_count", labels, sum(self._counts)))
        lines.append(sample(f"{self.name}_sum", labels, self.total))
        lines.append(
            gauge(f"{self.name}_created", self._about, [(labels, created)])
        )
        return "".join(lines)

    def _buckets(self, labels: Labels) -> Iterator[str]:
        so_far = 0
        for bound, found in zip(
            [*map(repr, self._bounds), "+Inf"], self._counts, strict=True
        ):
            so_far += found
            yield sample(f"{self.name}_bucket", {**labels, "le": bound}, so_far)


def process_metrics(started_at: float) -> str:
    """Return the client library's process families that others read.

    `started_at` is in seconds since the epoch.
    """
    own = Path("/proc/self")
    virtual_pages, resident_pages = map(
        int, (own / "statm").read_text().split()[:2]
    )
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    gauges = (
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            virtual_pages * page_bytes,
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            resident_pages * page_bytes,
        ),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started_at,
        ),
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
        (
            "process_open_fds",
            "Number of open file descriptors.",
            len(list((own / "fd").iterdir())),
        ),
    )
    cpu: list[Series] = [({}, time.process_time())]
    about = "Total user and system CPU time spent in seconds."
    return "".join(
        gauge(name, text, [({}, value)]) for name, text, value in gauges
    ) + counter("process_cpu_seconds", about, cpu, created=None)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
