"""Load points with a server's samples and a client's records, judged whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchrun.api import Result, ServerStatus
from benchrun.judge.results import results
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import Axis, RequestColumns, StageRecord
from unit.judge.specs import spec, workload
from unit.measure.records import edge, load_point, record, requests
from unit.measure.timelines import Gauges, gauge_samples


class LoadPoint:
    """One stage of a workload: its record and the samples within it."""

    def __init__(
        self,
        gauges: Sequence[Gauges],
        *,
        columns: RequestColumns,
        axis: Axis = "Concurrency",
        value: str = "8",
        prompt_rate: float | Sequence[float] = 1000.0,
        generation_rate: float | Sequence[float] = 100.0,
        every_seconds: float = 1.0,
        begins_at: float = 0.0,
        preemptions: float = 0.0,
        **changes: Any,
    ) -> None:
        self.load_point = load_point("chat", axis, value)
        seconds = len(gauges) * every_seconds
        # Without generated tokens at the server's edges, samples are chosen by the clocks.
        servers = (
            edge(
                rises={
                    "num_preemptions_total": preemptions,
                    "prefix_cache_queries_total": 1000.0,
                }
            ),
        )
        values: dict[str, Any] = {
            "requests": columns,
            "servers": servers,
            "first_send_unix_us": round((1000 + begins_at) * 1e6),
            "last_receive_unix_us": round((1000 + begins_at + seconds) * 1e6),
            "scalars": {"duration": seconds},
        }
        self.record: StageRecord = record(
            self.load_point.stage_ids[0], **(values | changes)
        )
        made = gauge_samples(
            gauges,
            prompt_rates=prompt_rate,
            generation_rates=generation_rate,
            every_seconds=every_seconds,
        )
        self.samples = [_later(s, begins_at) for s in made]


def _later(sample: Sample, seconds: float) -> Sample:
    return replace(sample, at=sample.at + seconds)


def answered(
    count: int, *, prompt: int = 100, output: int = 50, **changes: Any
) -> RequestColumns:
    """Build the columns of so many requests of these lengths, of one second each."""
    values: dict[str, Any] = {
        "ttft_us": [100_000] * count,
        "e2el_us": [1_000_000] * count,
        "output_tokens": [output] * count,
        "input_tokens": [prompt] * count,
    }
    return requests(**(values | changes))


def judged(
    *points: LoadPoint,
    args: Sequence[str] | None = None,
    servers: Sequence[ServerStatus] = (),
    off: Sequence[str] = (),
) -> list[Result]:
    """Judge the load points, and return their rows.

    `args` are the arguments of the run's own server; None measures an endpoint. `off` holds the
    rules that the spec turns off.
    """
    axis = points[0].load_point.load.axis
    values = [point.load_point.load.value for point in points]
    load: dict[str, Any] = (
        {"requestRates": values}
        if axis == "RequestRate"
        else {"concurrencies": [int(v) for v in values]}
    )
    whose = (
        {}
        if args is None
        else {"endpoint": None, "server": {"image": "vllm", "args": list(args)}}
    )
    return results(
        [point.load_point for point in points],
        [point.record for point in points],
        [sample for point in points for sample in point.samples],
        spec=spec(
            workloads=[workload(load=load)],
            validity={"severities": _off(off)},
            **whose,
        ),
        servers=servers,
    ).results


def _off(codes: Sequence[str]) -> list[dict[str, str]]:
    return [{"code": code, "severity": "Off"} for code in codes]
