"""Results of the newest finished runs for Prometheus: made when the page is read, never more than a known number of series."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from benchrun.observe.finished import HEADLINE_FIGURES, MAX_CELLS
from benchrun.runtime.latest_results import LatestResults

SERIES_A_RUN = 3 + MAX_CELLS * (1 + len(HEADLINE_FIGURES))
"""Most series that one run has."""


class ResultMetrics(Collector):
    """`benchrun_run_*` and `benchrun_result*`, of what `results` holds now."""

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
