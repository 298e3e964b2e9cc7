"""The newest runs that have ended, and their headline figures: what stays in memory of results, and stands on /metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from benchrun.observe.finished import HEADLINE_FIGURES, MAX_CELLS, FinishedRun
from benchrun.observe.identity import Key

MAX_RUNS = 100
"""Most runs that can be asked for: with 16 load points and 8 figures each, 1 MB kept and a page of 1.3 MB."""

class LatestResults:
    """At most `most` runs; one that ended later takes the place of the one that ended first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._kept: dict[Key, tuple[str, FinishedRun]] = {}
        """Uid, and how it ended."""

    def __iter__(self) -> Iterator[tuple[Key, FinishedRun]]:
        """The runs, by namespace and name."""
        return iter([(key, run) for key, (_, run) in sorted(self._kept.items(), key=lambda item: item[0])])

    def note(self, key: Key, uid: str, run: FinishedRun | None) -> None:
        """What a run's status says; None of a run that goes on, which may be a new one of an old name."""
        if run is not None:
            self._kept[key] = uid, run
            if len(self._kept) > self._most:
                del self._kept[min(self._kept, key=self._age)]
        elif key in self._kept and self._kept[key][0] != uid:
            del self._kept[key]

    def drop(self, key: Key) -> None:
        """The run is gone. An older one takes its place when the runs are listed again."""
        self._kept.pop(key, None)

    def _age(self, key: Key) -> tuple[float, Key]:
        return self._kept[key][1].ended_at.timestamp(), key


class ResultMetrics(Collector):
    """`benchrun_run_*` and `benchrun_result*`, of what `results` holds when the page is read: never more than a known number."""

    def __init__(self, results: LatestResults) -> None:
        self._results = results

    def collect(self) -> Iterator[Metric]:
        """Every family, also those without a series."""
        info = _gauge("run_info", "A finished run: how it ended and its verdict. Always 1.", "phase", "verdict")
        ended = _gauge("run_completion_timestamp_seconds", "When the run ended.")
        left_out = _gauge("run_cells_left_out", f"Load points of the run beyond the {MAX_CELLS} that are shown here.")
        cell_info = _gauge(
            "result_info", "A load point of a finished run and its verdict. Always 1.",
            "cell", "workload", "axis", "value", "verdict",
        )  # fmt: skip
        result = _gauge(
            "result", "A headline figure of a load point, under its name in status.results[].metrics.", "cell", "metric"
        )
        for key, run in self._results:
            info.add_metric((*key, run.phase, run.verdict), 1)
            ended.add_metric(key, run.ended_at.timestamp())
            left_out.add_metric(key, run.cells_left_out)
            for cell in run.cells:
                cell_info.add_metric((*key, cell.cell, cell.workload, cell.axis, cell.value, cell.verdict), 1)
                for name, value in zip(HEADLINE_FIGURES, cell.figures, strict=True):
                    if value is not None:
                        result.add_metric((*key, cell.cell, name), value)
        yield from (info, ended, left_out, cell_info, result)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"benchrun_{name}", meaning, labels=("namespace", "run", *labels))
