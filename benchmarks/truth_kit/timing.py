"""The client's figures held against the server's own log, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import fmean
from typing import Any

from benchrun.judge.stage_profile import expected_load
from benchrun.measure import Distribution, duration_seconds
from benchrun.plan import cells
from benchrun_client.contract import StageRecord

from truth_kit.lab import Outcome

FORGIVEN_MS = 5.0
SLACK_SECONDS = 0.015
"""A request arrives this much after it was sent, at most; a stage begins later than that after the last sending of another."""

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Error:
    """How far one figure of one stage is off."""

    stage: str
    figure: str
    truth: float
    """Milliseconds; of the throughput, tokens a second."""
    measured: float
    forgiven: float = 0.0

    @property
    def percent(self) -> float:
        """0 where the difference is forgiven."""
        difference = abs(self.measured - self.truth)
        return 0.0 if difference <= self.forgiven or self.truth <= 0 else 100 * difference / self.truth

    @property
    def signed_percent(self) -> float:
        """Above 0: measured too high."""
        return 100 * (self.measured - self.truth) / self.truth if self.truth > 0 else 0.0


def errors(outcome: Outcome) -> Iterator[Error]:
    """Mean, median and p99 of TTFT, E2EL and TPOT, and the throughput, of every stage."""
    offset = time.time() - time.monotonic()
    rates = {stage: expected_load(outcome.spec, cell).rate for cell in cells(outcome.spec) for stage in cell.stage_ids}
    for record in outcome.records:
        lines = _of_stage(record, outcome.truth, offset)
        if len(lines) == len(record.requests.ok):
            yield from _of_latencies(record, lines)
            yield _of_throughput(record, lines, rates[record.stage_id])


def ttft_error(outcome: Outcome, stage: str) -> float | None:
    """Percent by which the mean TTFT of a stage is too high; None where the log does not match it."""
    found = (e for e in errors(outcome) if e.stage == stage and e.figure == "mean ttft")
    return next((e.signed_percent for e in found), None)


def _of_stage(record: StageRecord, truth: Sequence[Line], offset: float) -> list[Line]:
    first = record.first_send_unix_us / 1e6 - offset
    # Up to the last send, not the last answer: the next stage begins hardly later.
    last = first + max(record.requests.start_us) / 1e6
    return [line for line in truth if first - SLACK_SECONDS <= line["arrived_at"] <= last + SLACK_SECONDS]


def _of_latencies(record: StageRecord, lines: Sequence[Line]) -> Iterator[Error]:
    columns = record.requests
    told = {
        "ttft": [us / 1000 for us in compress(columns.ttft_us, columns.ok)],
        "e2el": [us / 1000 for us in compress(columns.e2el_us, columns.ok)],
        "tpot": [
            (e2el - ttft) / (tokens - 1) / 1000
            for e2el, ttft, tokens in zip(columns.e2el_us, columns.ttft_us, columns.output_tokens, strict=True)
            if tokens > 1
        ],
    }
    true = {
        "ttft": [1000 * (line["first_sent_at"] - line["arrived_at"]) for line in lines],
        "e2el": [1000 * (line["last_sent_at"] - line["arrived_at"]) for line in lines],
        "tpot": [
            1000 * (line["last_sent_at"] - line["first_sent_at"]) / (line["output_tokens"] - 1)
            for line in lines
            if line["output_tokens"] > 1
        ],
    }
    for latency, values in told.items():
        if not values or not true[latency]:
            continue
        measured, truth = Distribution.of(values), Distribution.of(true[latency])
        yield Error(record.stage_id, f"mean {latency}", fmean(true[latency]), fmean(values), FORGIVEN_MS)
        for percent in (50, 99):
            yield Error(
                record.stage_id,
                f"p{percent} {latency}",
                truth.percentile(percent) or 0.0,
                measured.percentile(percent) or 0.0,
                FORGIVEN_MS,
            )


def _of_throughput(record: StageRecord, lines: Sequence[Line], rate: float | None) -> Error:
    arrivals, last_sent = [line["arrived_at"] for line in lines], max(line["last_sent_at"] for line in lines)
    # n arrivals at a rate take n gaps, of which one comes before the first; the engine sets the last at n / rate.
    began = min(arrivals) if rate is None else max(arrivals) - len(arrivals) / rate
    tokens = sum(compress(record.requests.output_tokens, record.requests.ok))
    return Error(
        record.stage_id,
        "output throughput",
        sum(line["output_tokens"] for line in lines) / (last_sent - began),
        tokens / duration_seconds(record),
    )
