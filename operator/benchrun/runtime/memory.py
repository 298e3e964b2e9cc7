"""In-memory state of active runs and sweeps, and figures of the latest finished runs.

All of it can be lost: a restarted operator reads it anew from the cluster and the client. Data that
the cluster has stored are dropped.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from benchrun import names
from benchrun.decide import Collected
from benchrun.decide.sweep.sweep_state import SweepCollected
from benchrun.observe import (
    HEADLINE_FIGURES,
    MAX_ROWS,
    Children,
    FinishedRun,
    Key,
    SweptRun,
)
from benchrun.runtime.budget import Budget


@dataclass(slots=True)
class Memory:
    """In-memory state of one object; the uid tells it from other objects of the same name."""

    uid: str
    making: asyncio.Task[None] | None = None
    """Task that makes the table of a sweep; None if no such task runs."""


@dataclass(slots=True)
class RunMemory(Memory):
    collected: Collected = field(default_factory=Collected)
    # sequence below which the client was told that records are stored
    acknowledged: int = 0
    outdated_since: float | None = None
    """Since when a status change waits to be written, by the event loop's clock."""

    unlooked_since: float | None = None
    """Since when attempts to read evidence have failed, by the event loop's clock."""
    # until when the run's GPU seconds are counted; None: not by this process yet
    gpus_counted_to: datetime | None = None
    # since when the run waits for what its server needs; None: it does not wait
    waits_since: datetime | None = None

    def let_go_of_stored(self, children: Children) -> None:
        stages = [
            c
            for c in children.objects
            if c.owner_uid == self.uid and c.role == names.ROLE_STAGE
        ]
        stored = {c.envelope for c in stages}
        arrivals = self.collected.arrivals
        self.collected.arrivals = {
            s: a for s, a in arrivals.items() if a.envelope not in stored
        }


@dataclass(slots=True)
class SweepMemory(Memory):
    collected: SweepCollected = field(default_factory=SweepCollected)
    settled: tuple[str, Mapping[str, SweptRun]] | None = None
    """Version of the sweep, and its runs, after a reconcile that left nothing to do. While they are
    the same, the sweep is not reconciled: most changes of runs are only live figures."""


# bytes for the unstored records and logs of all runs
RECORD_BYTES = 32 * 1024 * 1024
ALL_SAMPLE_BYTES = 40 * 1024 * 1024  # bytes for the unstored samples of all runs


class Measured:
    """Measurements in memory until they are stored, shared between namespaces.

    No measurement is dropped. A namespace whose records take more bytes than are still free gets no
    more records. If there are too many samples, the namespace with most has its samples merged.
    """

    def __init__(
        self,
        *,
        record_bytes: int = RECORD_BYTES,
        sample_bytes: int = ALL_SAMPLE_BYTES,
    ) -> None:
        self.records = Budget(record_bytes)
        self.samples = Budget(sample_bytes)

    def note(self, key: Key, collected: Collected) -> None:
        """Record how many bytes are held for the run now."""
        self.records.note(key, max(collected.backlog_bytes, collected.judged_bytes))
        self.samples.note(key, collected.samples.held_bytes)

    def let_go(self, key: Key) -> None:
        """Record that nothing is held for the run any more."""
        self.records.let_go(key)
        self.samples.let_go(key)


M = TypeVar("M", bound=Memory)


class Memories(dict[Key, M]):
    """In-memory state of every object of one kind that has not ended."""

    def __init__(self, kind: type[M]) -> None:
        self._kind = kind
        self.namespaces = Counter[str]()  # number of objects by namespace

    def holds(self, key: Key, uid: str) -> bool:
        """Return whether there is in-memory state of the object with this key and uid."""
        return key in self and self[key].uid == uid

    def of(self, key: Key, uid: str) -> M:
        """Return the object's in-memory state.

        An object of the same name but another uid starts with a new one.
        """
        if not self.holds(key, uid):
            self.drop(key)
            self[key] = self._kind(uid)
            self.namespaces[key.namespace] += 1
        return self[key]

    def drop(self, key: Key) -> None:
        if (memory := self.pop(key, None)) is None:
            return
        self.namespaces[key.namespace] -= 1
        if not self.namespaces[key.namespace]:
            del self.namespaces[key.namespace]
        if memory.making is not None:
            memory.making.cancel()


# most that can be configured: with 16 load points and 8 figures each, 1 MB kept, 1.3 MB of metrics
MAX_RUNS = 100


class LatestResults:
    """The outcomes of the `most` runs that ended last."""

    def __init__(self, *, most: int) -> None:
        self.most = most
        self._kept: dict[Key, tuple[str, FinishedRun]] = {}  # uid and outcome

    def __iter__(self) -> Iterator[tuple[Key, FinishedRun]]:
        return iter(
            [
                (key, run)
                for key, (_, run) in sorted(
                    self._kept.items(), key=lambda item: item[0]
                )
            ]
        )

    def has_place(self, key: Key, ended_at: datetime | None) -> bool:
        """Return whether a run that ended then may be kept; reading its results is not cheap."""
        if ended_at is None or key in self._kept or len(self._kept) < self.most:
            return True
        return ended_at >= min(run.ended_at for _, run in self._kept.values())

    def lacks(self, key: Key, uid: str, ended_at: datetime | None) -> bool:
        """Return whether a run that ended then is to be kept, and is not yet."""
        if not self.most or ended_at is None:
            return False
        known, _ = self._kept.get(key, ("", None))
        return known != uid and self.has_place(key, ended_at)

    def note(self, key: Key, uid: str, run: FinishedRun | None) -> None:
        """Record how a run ended; None for a run that has not ended.

        A run that has not ended removes an earlier finished run of the same name.
        """
        if run is not None:
            self._kept[key] = uid, run
            if len(self._kept) > self.most:
                del self._kept[
                    min(
                        self._kept,
                        key=lambda key: (
                            self._kept[key][1].ended_at.timestamp(),
                            key,
                        ),
                    )
                ]
        elif key in self._kept and self._kept[key][0] != uid:
            del self._kept[key]

    def drop(self, key: Key) -> None:
        """Remove a deleted run. The next list of all runs adds the next older one."""
        self._kept.pop(key, None)


@dataclass(eq=False)
class ResultMetrics(Collector):
    """The metrics `benchrun_run_*` and `benchrun_result*` of the runs in `results`.

    The number of series is bounded.
    """

    results: LatestResults

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family, also families without a series."""
        info = _gauge(
            "run_info",
            "A finished run: how it ended and its verdict. Always 1.",
            "phase",
            "verdict",
        )
        ended = _gauge(
            "run_completion_timestamp_seconds",
            "Unix time at which the run ended, in seconds.",
        )
        left_out = _gauge(
            "run_load_points_left_out",
            f"Load points of the run that have no metrics: only the first {MAX_ROWS} have.",
        )
        load_point_info = _gauge(
            "result_info", "A load point of a finished run and its verdict. Always 1.",
            "load_point", "workload", "axis", "value", "verdict",
        )  # fmt: skip
        result = _gauge(
            "result",
            "A headline figure of a load point, under its name in status.results[].metrics.",
            "load_point",
            "metric",
        )
        for (_, *where), run in self.results:
            info.add_metric((*where, run.phase, run.verdict), 1)
            ended.add_metric(where, run.ended_at.timestamp())
            left_out.add_metric(where, run.load_points_left_out)
            for load_point in run.load_points:
                load_point_info.add_metric(
                    (
                        *where,
                        load_point.load_point,
                        load_point.workload,
                        load_point.axis,
                        load_point.value,
                        load_point.verdict,
                    ),
                    1,
                )
                for name, value in zip(
                    HEADLINE_FIGURES, load_point.figures, strict=True
                ):
                    if value is not None:
                        result.add_metric(
                            (*where, load_point.load_point, name), value
                        )
        yield from (info, ended, left_out, load_point_info, result)


@dataclass(eq=False)
class WaitMetrics(Collector):
    """The gauge of the longest wait in each namespace that has a run that waits.

    A namespace that can't be read has no series: whether its runs still wait, or exist, is not
    known.
    """

    now: Callable[[], datetime]
    is_readable: Callable[[str], bool] = lambda _: True
    runs: Memories[RunMemory] = field(
        default_factory=lambda: Memories(RunMemory), init=False
    )

    def collect(self) -> Iterator[Metric]:
        """Yield the metric family, also without a series."""
        longest = GaugeMetricFamily(
            "benchrun_longest_wait_seconds",
            "Seconds that the run has waited that waits longest for what its server needs.",
            labels=("namespace",),
        )
        since: dict[str, datetime] = {}
        for key, memory in self.runs.items():
            if memory.waits_since is not None and self.is_readable(key.namespace):
                first = since.get(key.namespace, memory.waits_since)
                since[key.namespace] = min(first, memory.waits_since)
        for namespace, instant in since.items():
            seconds = (self.now() - instant).total_seconds()
            longest.add_metric((namespace,), max(0.0, seconds))
        yield longest


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        f"benchrun_{name}", meaning, labels=("namespace", "run", *labels)
    )
