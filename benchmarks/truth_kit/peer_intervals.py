"""Runs in the environment of another tool, and prints what its own estimator makes of latencies.

The argument is the tool. Each line of standard input is a JSON list of stages, each a list of
values; each line of standard output the 95 % intervals of their percentiles, by percentile, null
where the tool gives none. The tools' code is imported as it is.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

PERCENTS = (50, 90, 95, 99)
Stages = Sequence[Sequence[float]]
Intervals = Mapping[str, Sequence[float] | None]


def guidellm(stages: Stages) -> Intervals:
    """Return the intervals of a report of guidellm; it has them of one stage only."""
    statistics = import_module("guidellm.utils.statistics")
    (values,) = stages
    ordered = sorted(values)
    return {
        str(each): statistics.quantile_confidence_interval(
            ordered, each / 100, 0.95
        )
        for each in PERCENTS
    }


def aiperf(stages: Stages) -> Intervals:
    """Return the intervals of AIPerf over several runs, of the percentiles of each."""
    numpy = import_module("numpy")
    models = import_module("aiperf.orchestrator.models")
    exports = import_module("aiperf.common.models.export_models")
    aggregation = import_module("aiperf.orchestrator.aggregation.confidence")

    def run(number: int, values: Sequence[float]) -> Any:
        found = {
            f"p{each}": float(numpy.percentile(values, each)) for each in PERCENTS
        }
        metric = exports.JsonMetricResult(unit="ms", **found)
        return models.RunResult(
            label=str(number), success=True, summary_metrics={"latency": metric}
        )

    runs = [run(number, values) for number, values in enumerate(stages)]
    metrics = aggregation.ConfidenceAggregation(0.95).aggregate(runs).metrics
    return {
        str(each): (
            metrics[f"latency_p{each}"].ci_low,
            metrics[f"latency_p{each}"].ci_high,
        )
        for each in PERCENTS
    }


def main() -> None:
    """Answer every line until standard input ends."""
    estimate = {"guidellm": guidellm, "aiperf": aiperf}[sys.argv[1]]
    for line in sys.stdin:
        print(json.dumps(estimate(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
