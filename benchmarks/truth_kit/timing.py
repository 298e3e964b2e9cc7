"""The client's figures held against the server's own log, stage by stage."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, compress
from typing import Any

from benchrun.judge.stage_facts import StageFacts, expected_load
from benchrun.measure import Distribution, Plateau, duration_seconds, plateau_totals
from benchrun.plan import cells
from benchrun_client.contract import StageRecord

from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import open_loop, users

FORGIVEN_MS: Mapping[str, float] = {"ttft": 1.0, "e2el": 1.0, "tpot": 0.2, "itl": 0.2}
"""What a request takes from the server's socket to the client's code and back, and how finely an
event loop hands out tokens."""
ALONE = Experiment(
    name="alone",
    workloads=[
        open_loop("25", 8, name="some"),
        open_loop("40", 8, name="many"),
        users(1, 60, name="one"),  # Both processes sleep between its requests, and are woken.
    ],
    servers=(("--sim-ttft-ms=10", "--sim-tpot-ms=5"),),
    measurement={"warmup": {"auto": {}}},
    client_ahead=True,
    servers_ahead=True,
)
"""One client that nothing disturbs: how much longer its TTFT is than the server's, at most."""
ALONE_FACTOR, SLOWED_FACTOR = 1.5, 2.0
"""So many times that is forgiven of a client that shares the cores. In two whole runs on a host
that slowed them it took 1.9 at most."""
SLACK_SECONDS = 0.050
"""A request arrives this much after it was sent, at most; a stage begins later than that after the
last sending of another."""
SLOW_MARGIN_SECONDS = 0.010
"""So long before and after a core was slow, a request that is under way may have met it."""
LEAST_REQUESTS = 5
"""Of a stage, that met no slow core: fewer tell nothing of its latencies."""
PERCENTS = (50, 99)
RANK_POINTS = 1
"""A percentile is right that lies within so many points of its rank."""

Line = Mapping[str, Any]
Figures = Mapping[str, float]
Forgiven = Callable[[StageRecord], Mapping[str, float]]
"""What is forgiven of the times of a stage, in milliseconds."""
Slow = Callable[[StageRecord], Sequence[tuple[float, float]]]
"""From when until when a core of the machine was slow in a stage; Unix seconds."""


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
        return (
            0.0 if difference <= self.forgiven or self.truth <= 0 else 100 * difference / self.truth
        )

    @property
    def signed_percent(self) -> float:
        """Above 0: measured too high."""
        return 100 * (self.measured - self.truth) / self.truth if self.truth > 0 else 0.0


def forgiven_ms(
    alone: Outcome,
    work_seconds: Callable[[StageRecord], float | None],
    *,
    slow: Slow = lambda _: (),
    slowed: Callable[[StageRecord], bool] = lambda _: False,
) -> Forgiven:
    """As `FORGIVEN_MS`; of requests at least `ALONE_FACTOR` times what the undisturbed client
    takes, or `SLOWED_FACTOR`, by the speed that the cores had in the stage: `work_seconds` of
    it."""
    gaps_ms = {
        error.stage: error.measured - error.truth
        for error in errors(alone, slow=slow)
        if error.figure == "mean ttft"
    }
    works = {record.stage_id: work_seconds(record) or math.inf for record in alone.records}
    most = max(gap / works[stage] for stage, gap in gaps_ms.items())

    def of_stage(record: StageRecord) -> Mapping[str, float]:
        factor = SLOWED_FACTOR if slowed(record) else ALONE_FACTOR
        request_ms = max(FORGIVEN_MS["ttft"], factor * most * (work_seconds(record) or 0.0))
        return {**FORGIVEN_MS, "ttft": request_ms, "e2el": request_ms}

    return of_stage


def errors(
    outcome: Outcome, forgiven: Forgiven = lambda _: FORGIVEN_MS, slow: Slow = lambda _: ()
) -> Iterator[Error]:
    """Mean, median and p99 of every latency, and the throughput, of every stage whose requests are
    all in the server's log. Latencies but ITL are those of requests that met no slow core."""
    for stage, lines, began in _stages(outcome):
        record = stage.record
        kept = undisturbed(record, slow(record))
        least = forgiven(record)
        told, true = _told(record, kept), _true(_of_requests(record, lines, kept), lines)
        for latency, values in told.items():
            if values.count and true[latency].count:
                yield from _of_latency(
                    record.stage_id, latency, true[latency], values, least[latency]
                )
        tokens = sum(compress(record.requests.output_tokens, record.requests.ok))
        measured = tokens / duration_seconds(record)
        yield Error(
            record.stage_id, "output throughput", _throughput(lines, stage.expected.rate), measured
        )
        if isinstance(stage.plateau, Plateau):
            steady = plateau_totals([(record, stage.plateau)])["output_throughput"] or 0.0
            yield Error(
                record.stage_id, "plateau throughput", _steady(lines, began, stage.plateau), steady
            )


def ttft_error(outcome: Outcome, stage: str, slow: Slow = lambda _: ()) -> float | None:
    """Percent by which the mean TTFT of a stage is too high; None where the log does not match it,
    or no request is left."""
    found = (e for e in errors(outcome, slow=slow) if e.stage == stage and e.figure == "mean ttft")
    return next((e.signed_percent for e in found), None)


def true_figures(outcome: Outcome) -> Iterator[tuple[str, Figures]]:
    """The load point of each stage, and its headline figures as the server's log has them, by their
    names in the results. Throughput is that of the plateau, where there is one."""
    cell_of = {stage: cell.id for cell in cells(outcome.spec) for stage in cell.stage_ids}
    for stage, lines, began in _stages(outcome):
        true, where = _true(lines, lines), stage.plateau
        yield (
            cell_of[stage.id],
            {
                "output_throughput": (
                    _steady(lines, began, where)
                    if isinstance(where, Plateau)
                    else _throughput(lines, stage.expected.rate)
                ),
                "mean_ttft_ms": true["ttft"].mean() or 0.0,
                "mean_tpot_ms": true["tpot"].mean() or 0.0,
                "p99_ttft_ms": true["ttft"].percentile(99) or 0.0,
            },
        )


def _stages(outcome: Outcome) -> Iterator[tuple[StageFacts, Sequence[Line], float]]:
    """Each stage with its lines of the log and when it began by the log's clock; those whose lines
    are not its requests are left out."""
    offset = time.time() - time.monotonic()
    loads = {
        stage: expected_load(outcome.spec, cell)
        for cell in cells(outcome.spec)
        for stage in cell.stage_ids
    }
    for record in outcome.records:
        first = record.first_send_unix_us / 1e6 - offset
        # Up to the last send, not the last answer: the next stage begins hardly later.
        last = first + max(record.requests.start_us) / 1e6
        lines = [
            x
            for x in outcome.truth
            if first - SLACK_SECONDS <= x["arrived_at"] <= last + SLACK_SECONDS
        ]
        if len(lines) == len(record.requests.ok):
            yield StageFacts(record, loads[record.stage_id]), lines, first


def _steady(lines: Sequence[Line], began: float, where: Plateau) -> float:
    """Tokens a second that left the server between the plateau's edges."""
    begin, end = (began + edge / 1e6 for edge in (where.start_us, where.end_us))
    tokens = sum(begin < at <= end for line in lines for at in _instants(line))
    return tokens / (end - begin)


def _instants(line: Line) -> Iterator[float]:
    """When each of its tokens left."""
    return accumulate((us / 1e6 for us in line["gaps_us"]), initial=line["first_sent_at"])


def undisturbed(record: StageRecord, slow: Sequence[tuple[float, float]]) -> Sequence[bool]:
    """Of each request of a stage: whether no core was slow while it was under way."""
    began, columns = record.first_send_unix_us / 1e6, record.requests
    spans = [
        (begin - SLOW_MARGIN_SECONDS - began, end + SLOW_MARGIN_SECONDS - began)
        for begin, end in slow
    ]
    return [
        not any(begin < (start + e2el) / 1e6 and start / 1e6 < end for begin, end in spans)
        for start, e2el in zip(columns.start_us, columns.e2el_us, strict=True)
    ]


def _of_requests(
    record: StageRecord, lines: Sequence[Line], kept: Sequence[bool]
) -> Sequence[Line]:
    """The lines of these requests: as they were sent, so they arrived."""
    sent = sorted(range(len(kept)), key=record.requests.start_us.__getitem__)
    return list(
        compress(
            sorted(lines, key=lambda line: line["arrived_at"]), (kept[number] for number in sent)
        )
    )


def _told(record: StageRecord, kept: Sequence[bool]) -> dict[str, Distribution]:
    columns = record.requests
    timed = [ok and keep for ok, keep in zip(columns.ok, kept, strict=True)]
    if sum(timed) < LEAST_REQUESTS:
        timed = [False] * len(timed)
    longer = [
        keep and tokens > 1 for keep, tokens in zip(timed, columns.output_tokens, strict=True)
    ]
    rows = zip(columns.e2el_us, columns.ttft_us, columns.output_tokens, strict=True)
    return {
        "ttft": Distribution.of(us / 1000 for us in compress(columns.ttft_us, timed)),
        "e2el": Distribution.of(us / 1000 for us in compress(columns.e2el_us, timed)),
        "tpot": Distribution.of(
            (e2el - ttft) / (tokens - 1) / 1000 for e2el, ttft, tokens in compress(rows, longer)
        ),
        "itl": Distribution.of_counts(
            (us / 1000, n) for us, n in zip(record.gaps.us, record.gaps.count, strict=True)
        ),
    }


def _true(lines: Sequence[Line], every: Sequence[Line]) -> dict[str, Distribution]:
    """`every`: the lines of all requests, since the client does not tell whose the gaps are."""
    longer = [line for line in lines if line["output_tokens"] > 1]
    return {
        "ttft": Distribution.of(
            1000 * (line["first_sent_at"] - line["arrived_at"]) for line in lines
        ),
        "e2el": Distribution.of(
            1000 * (line["last_sent_at"] - line["arrived_at"]) for line in lines
        ),
        "tpot": Distribution.of(
            1000 * (line["last_sent_at"] - line["first_sent_at"]) / (line["output_tokens"] - 1)
            for line in longer
        ),
        "itl": Distribution.of(
            us / 1000 for us in chain.from_iterable(line["gaps_us"] for line in every)
        ),
    }


def _of_latency(
    stage: str, latency: str, truth: Distribution, measured: Distribution, forgiven: float
) -> Iterator[Error]:
    yield Error(stage, f"mean {latency}", truth.mean() or 0.0, measured.mean() or 0.0, forgiven)
    for percent in PERCENTS:
        told = measured.percentile(percent) or 0.0
        # Lengths of few kinds leave gaps between their times, and a median jumps over one for a
        # request more or less.
        least, most = (
            truth.percentile(percent + points) or 0.0 for points in (-RANK_POINTS, RANK_POINTS)
        )
        yield Error(stage, f"p{percent} {latency}", min(max(told, least), most), told, forgiven)


def _throughput(lines: Sequence[Line], rate: float | None) -> float:
    arrivals, last_sent = (
        [line["arrived_at"] for line in lines],
        max(line["last_sent_at"] for line in lines),
    )
    # n arrivals at a rate take n gaps, of which one comes before the first; the engine sets the
    # last at n / rate.
    began = min(arrivals) if rate is None else max(arrivals) - len(arrivals) / rate
    tokens: int = sum(line["output_tokens"] for line in lines)
    return float(tokens / (last_sent - began))
