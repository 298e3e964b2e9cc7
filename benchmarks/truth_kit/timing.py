"""The figures of a stage according to the log of the simulated server."""

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from benchrun.measure import Distribution
from benchrun_client.contract import StageRecord

from truth_kit.lab import Outcome

SLACK_SECONDS = 0.050
"""Slack between the two clocks, which drift apart by less while a run lasts; the previous stage
ends earlier."""
LATENCIES = ("ttft", "tpot", "itl", "e2el")

Line = Mapping[str, Any]
Figures = Mapping[str, float]


def stage_lines(
    log: Sequence[Line], *, first_sent: float, last_sent: float, requests: int
) -> Sequence[Line] | None:
    """Return the log lines of a stage's requests, sent between two instants (CLOCK_MONOTONIC).

    None means that lines are missing, or that others sent requests meanwhile.
    """
    arrived = sorted(
        (line for line in log if line["arrived_at"] >= first_sent - SLACK_SECONDS),
        key=lambda line: line["arrived_at"],
    )
    lines = arrived[:requests]
    later = arrived[requests:]
    others = bool(later) and later[0]["arrived_at"] <= last_sent
    return None if others or len(lines) < requests else lines


def sending_span(record: StageRecord) -> tuple[float, float]:
    """Return when a stage that has just ended sent its first and its last request.

    Both are in seconds of CLOCK_MONOTONIC.
    """
    first = record.first_send_unix_us / 1e6 - (time.time() - time.monotonic())
    return first, first + max(record.requests.start_us) / 1e6


def true_figures(lines: Sequence[Line], *, rate: float | None) -> Figures:
    """Return mean and median of each latency, and the throughput, by their names in results.

    Latencies are in milliseconds, the throughput in tokens a second. `rate` is that of an open
    loop, in requests a second; None for users.
    """
    longer = [line for line in lines if line["output_tokens"] > 1]
    values = {
        "ttft": [
            1000 * (line["first_sent_at"] - line["arrived_at"]) for line in lines
        ],
        "e2el": [
            1000 * (line["last_sent_at"] - line["arrived_at"]) for line in lines
        ],
        "tpot": [
            1000
            * (line["last_sent_at"] - line["first_sent_at"])
            / (line["output_tokens"] - 1)
            for line in longer
        ],
        "itl": [
            us / 1000
            for us in chain.from_iterable(line["gaps_us"] for line in lines)
        ],
    }
    figures = {"output_throughput": _throughput(lines, rate)}
    for latency in LATENCIES:
        distribution = Distribution.of(values[latency])
        figures[f"mean_{latency}_ms"] = distribution.mean() or 0.0
        figures[f"median_{latency}_ms"] = distribution.percentile(50) or 0.0
    return figures


def ttft_error(outcome: Outcome, stage: str) -> float | None:
    """Return by how many percent the mean TTFT of a stage is too high.

    None means that the server's log does not match the stage.
    """
    for record in outcome.records:
        if record.stage_id != stage:
            continue
        first, last = sending_span(record)
        count = len(record.requests.ok)
        lines = stage_lines(
            outcome.truth, first_sent=first, last_sent=last, requests=count
        )
        times = [
            us
            for us, ok in zip(
                record.requests.ttft_us, record.requests.ok, strict=True
            )
            if ok
        ]
        if lines and times:
            true = true_figures(lines, rate=None)["mean_ttft_ms"]
            return 100 * (sum(times) / len(times) / 1000 / true - 1)
    return None


def _throughput(lines: Sequence[Line], rate: float | None) -> float:
    arrivals = [line["arrived_at"] for line in lines]
    last_sent = max(line["last_sent_at"] for line in lines)
    # n arrivals at a rate take n gaps, of which one comes before the first; vLLM sets the last
    # arrival at n / rate.
    began = min(arrivals) if rate is None else max(arrivals) - len(arrivals) / rate
    tokens: int = sum(line["output_tokens"] for line in lines)
    return float(tokens / (last_sent - began))
