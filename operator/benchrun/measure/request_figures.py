"""Figures of a load point under vLLM's own key names, and arithmetic on missing numbers.

The requests of all stages of a load point are pooled. With one stage the figures equal vLLM's. With
several they are those of one long stage: latencies over all requests, throughput as totals divided
by summed durations. Failed requests count only in `failed` and `answered_percent`.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import add, and_, mul, sub
from statistics import fmean
from typing import Literal

from benchrun_client import contract
from benchrun_client.contract import (
    Distribution as Distribution,
    Plateau,
    RequestColumns,
    StageRecord,
)

GREATEST = 1e15
"""Largest value of a gauge or counter: a billion tokens a second reach it after eleven days. Up to
here a float holds every whole number exactly."""


def is_believable(value: float) -> bool:
    """Return whether a gauge or counter can have this value: a number from 0 to 1e15, not NaN."""
    return 0 <= value <= GREATEST


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def sum_of_all(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if any value is None or there is no value."""
    return None if None in values else sum_of_known(values)


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are not None; None if all are None."""
    found = known(values)
    return math.fsum(found) if found else None


def ratio(
    part: float | None, whole: float | None, scale: float = 1.0
) -> float | None:
    """Return `scale` times part over whole.

    None if either is None, or the whole is 0 or less.
    """
    return (
        None
        if part is None or whole is None or whole <= 0
        else scale * part / whole
    )


def risen(before: float | None, after: float | None) -> float | None:
    """Return how far a counter rose; None if a value is None or it fell (another process)."""
    return (
        None
        if before is None or after is None or after < before
        else after - before
    )


Latency = Literal["ttft", "tpot", "itl", "e2el"]
LATENCIES: tuple[Latency, ...] = ("ttft", "tpot", "itl", "e2el")
REASONING_LATENCIES: tuple[str, ...] = ("ttfrt", "ttfat")
"""Time to the first token of reasoning, and to the first token of the answer that follows it. They
are there only if an answer has reasoning."""
WHOLE_LATENCIES: tuple[Latency, ...] = ("e2el",)
"""Latencies of answers that come as a whole."""
SIGNIFICANT_DIGITS = 5
# Latencies of many requests in microseconds, by the latency's name.
Pools = Mapping[str, Distribution]
Metrics = dict[str, float | None]
"""Figures by the keys of `results[].metrics`; None if the figure is not known."""

QUEUED_TTFT = "ttft_including_client_queue"
QUEUED_E2EL = "e2el_including_client_queue"
QUEUE_TIME = "client_queue_time"
QUEUED_TTFRT = "ttfrt_including_client_queue"
QUEUED_TTFAT = "ttfat_including_client_queue"
QUEUED_LATENCIES = (QUEUE_TIME, QUEUED_TTFT, QUEUED_E2EL)
"""Latencies that include the wait in the client, for an open loop under a cap. A request may then
be sent later than it is due, and without that wait a slow server would look fast. The names are
keys of `metrics`; QUEUED_E2EL and QUEUE_TIME are vLLM's own names."""

QUEUED_WHOLE_LATENCIES = (QUEUE_TIME, QUEUED_E2EL)
"""The same latencies where answers arrive whole: these have no TTFT."""


def _tpot(requests: RequestColumns) -> Iterable[float | None]:
    """Return the TPOT of each request in microseconds; None for an answer of one token.

    TPOT is the time per output token after the first.
    """
    rows = zip(
        requests.e2el_us, requests.ttft_us, requests.output_tokens, strict=True
    )
    return (
        (e2el - ttft) / (tokens - 1) if tokens > 1 else None
        for e2el, ttft, tokens in rows
    )


def _to_reasoning(requests: RequestColumns) -> Iterable[float | None]:
    """Return the time to the first token of reasoning; None for an answer without reasoning."""
    return (us or None for us in requests.reasoning_us or [0] * len(requests.ok))


def _to_answer(requests: RequestColumns) -> Iterable[float | None]:
    """Return the time to the first token of the answer; None if it ended within its reasoning."""
    return (us or None for us in requests.answer_us or requests.ttft_us)


def _queued(
    values: Callable[[RequestColumns], Iterable[float | None]],
) -> Callable[[RequestColumns], Iterable[float | None]]:
    """Return a function like `values` for the latency that includes the wait in the client."""

    def since_due(requests: RequestColumns) -> Iterable[float | None]:
        for value, wait in zip(values(requests), requests.queue_us, strict=True):
            yield None if value is None else value + wait

    return since_due


_OF_REQUESTS: Mapping[str, Callable[[RequestColumns], Iterable[float | None]]] = {
    "ttft": lambda requests: requests.ttft_us,
    "tpot": _tpot,
    "e2el": lambda requests: requests.e2el_us,
    "ttfrt": _to_reasoning,
    "ttfat": _to_answer,
    QUEUED_TTFRT: _queued(_to_reasoning),
    QUEUED_TTFAT: _queued(_to_answer),
    QUEUE_TIME: lambda requests: requests.queue_us,
    QUEUED_TTFT: lambda requests: map(add, requests.ttft_us, requests.queue_us),
    QUEUED_E2EL: lambda requests: map(add, requests.e2el_us, requests.queue_us),
}
"""Functions that return a latency of all requests in microseconds, by its name."""


_NEVER_BEGUN = frozenset({"ttfat", QUEUED_TTFAT})


def has_reasoning(records: Iterable[StageRecord]) -> bool:
    """Return whether any answer of these stages has reasoning."""
    return any(record.requests.reasoning_us for record in records)


def has_whole_answers(records: Sequence[StageRecord]) -> bool:
    """Return whether the answers of these stages came as a whole and have no tokens."""
    return bool(records) and all(each.whole_answers for each in records)


def measured_latencies(records: Sequence[StageRecord]) -> tuple[str, ...]:
    """Return the latencies that these stages have: only E2EL if answers came as a whole."""
    if has_whole_answers(records):
        return WHOLE_LATENCIES
    return LATENCIES + (REASONING_LATENCIES if has_reasoning(records) else ())


def queued_latencies(records: Sequence[StageRecord]) -> tuple[str, ...]:
    """Return the latencies that include the wait in the client and that these stages have."""
    if has_whole_answers(records):
        return QUEUED_WHOLE_LATENCIES
    more = (QUEUED_TTFRT, QUEUED_TTFAT) if has_reasoning(records) else ()
    return QUEUED_LATENCIES + more


def request_values(
    requests: RequestColumns, latency: str, *, failed: float | None = None
) -> list[float | None]:
    """Return one value per request, in microseconds.

    The value is None if the request has none, and `failed` if the request failed, or if its answer
    never began and the latency is the time until then.
    """
    values = zip(_OF_REQUESTS[latency](requests), requests.ok, strict=True)
    if latency in _NEVER_BEGUN:
        return [
            failed if not ok or value is None else value for value, ok in values
        ]
    return [value if ok else failed for value, ok in values]


def latencies(records: Sequence[StageRecord], latency: str) -> Distribution:
    """Return the distribution of a latency over all successful requests, in microseconds.

    `latency` is one of `measured_latencies` or `queued_latencies`.
    """
    if latency == "itl":
        return Distribution.of_counts(
            chain.from_iterable(
                zip(r.gaps.us, r.gaps.count, strict=True) for r in records
            )
        )
    return Distribution.of(
        chain.from_iterable(
            known(request_values(r.requests, latency)) for r in records
        )
    )


def pools_of(
    records: Sequence[StageRecord], names: Sequence[str] | None = None
) -> Pools:
    """Return the pooled latencies of these names; without names, all but the queued ones."""
    wanted = measured_latencies(records) if names is None else names
    return {latency: latencies(records, latency) for latency in wanted}


def mean_ms(record: StageRecord, latency: Latency) -> float | None:
    """Return the mean of a latency in one stage, in milliseconds; None without values.

    This is faster than `latencies`, which sorts the values.
    """
    if latency not in measured_latencies([record]):
        return None
    if latency == "itl":
        total = sum(map(mul, record.gaps.us, record.gaps.count))
        count = sum(record.gaps.count)
        return milliseconds(total / count) if count else None
    values = known(request_values(record.requests, latency))
    return milliseconds(fmean(values)) if values else None


RECONNECTED = "reconnected"
"""Key of `results[].metrics`; present only if requests were sent again on a new connection."""
ANSWERED_PERCENT = "answered_percent"
"""Key of `results[].metrics`; present only if requests failed: the share of requests that were
answered, from which the percentiles are computed."""


CACHED_BY_ANSWERS = "answers_cached_percent"
"""Key of `results[].metrics`; present only if every answer tells how many tokens of its prompt were
found in a cache: their share by the answers' own counts, not by the servers' metrics."""


def cached_metrics(records: Sequence[StageRecord]) -> Metrics:
    """Return which share of the prompt tokens was found in a cache, as the answers tell it.

    Empty if one of them does not.
    """
    told = [record.cached for record in records if record.cached is not None]
    answered = sum(sum(record.requests.ok) for record in records)
    prompts = sum(each.prompt_tokens for each in told)
    if not prompts or sum(each.answers for each in told) != answered:
        return {}
    cached = sum(each.cached_tokens for each in told)
    return {CACHED_BY_ANSWERS: rounded(100 * cached / prompts)}


def pooled_metrics(
    records: Sequence[StageRecord], pools: Pools, percentiles: Sequence[str]
) -> Metrics:
    """Return every figure of a load point from its pooled stages.

    Latencies are milliseconds with five significant digits; counts are exact.
    """
    metrics = (
        totals(records)
        | connect_metrics(records)
        | cached_metrics(records)
        | reasoning_metrics(records)
    )
    streams = [record.streams for record in records if record.streams is not None]
    if reconnected := sum(each.reconnected for each in streams):
        metrics[RECONNECTED] = reconnected
    if metrics["failed"]:
        requests = sum(len(record.requests.ok) for record in records)
        metrics[ANSWERED_PERCENT] = rounded(
            100 * (metrics["completed"] or 0) / requests
        )
    for latency, pool in pools.items():
        metrics |= level_metrics(pool, latency, percentiles, deviation=True)
    return metrics


def counts_tokens(record: StageRecord) -> bool:
    """Return whether the server counted the tokens of every answer whose stream it closed.

    If the record does not say which streams were closed, return whether any answer was counted.
    Answers that came as a whole have no tokens to count.
    """
    if record.whole_answers:
        return False
    if record.streams is not None:
        return not record.streams.uncounted
    columns = record.requests
    return any(map(and_, columns.ok, columns.ended)) or not any(columns.ok)


def totals(records: Sequence[StageRecord]) -> Metrics:
    """Return numbers of requests and tokens, and both per second.

    Output tokens are None if no server counted them. If answers came as a whole there is nothing on
    output tokens, and the tokens in all are those of the prompts.
    """
    duration = math.fsum(map(duration_seconds, records))
    completed = sum(sum(record.requests.ok) for record in records)
    input_tokens = sum(
        sum(compress(r.requests.input_tokens, r.requests.ok)) for r in records
    )
    output_tokens = (
        sum(sum(compress(r.requests.output_tokens, r.requests.ok)) for r in records)
        if all(map(counts_tokens, records))
        else None
    )
    counts: Metrics = {
        "completed": completed,
        "failed": sum(map(failed_requests, records)),
        "duration": rounded(duration),
        "total_input_tokens": input_tokens,
    }
    if has_whole_answers(records):
        return counts | _whole_throughputs(duration, completed, input_tokens)
    return {
        **counts,
        "total_output_tokens": output_tokens,
        **_throughputs(duration, completed, input_tokens, output_tokens),
    }


def _whole_throughputs(
    seconds: float, completed: int, input_tokens: int
) -> Metrics:
    """Return throughputs under vLLM's names, whose total of embeddings has the prompts' tokens."""
    return {
        "request_throughput": rounded(ratio(completed, seconds)),
        "total_token_throughput": rounded(ratio(input_tokens, seconds)),
    }


def _throughputs(
    seconds: float, completed: int, input_tokens: int, output_tokens: float | None
) -> Metrics:
    total = None if output_tokens is None else input_tokens + output_tokens
    return {
        "request_throughput": rounded(ratio(completed, seconds)),
        "output_throughput": rounded(ratio(output_tokens, seconds)),
        "total_token_throughput": rounded(ratio(total, seconds)),
    }


def reasoning_metrics(records: Sequence[StageRecord]) -> Metrics:
    """Return the tokens of reasoning and of answers, and how many answers never began.

    Tokens are None if they are not known for every answer. Empty if no answer has reasoning.
    """
    if not has_reasoning(records):
        return {}
    reasoning = sum_of_all(list(map(_reasoning_tokens, records)))
    output = totals(records)["total_output_tokens"]
    never = [value for r in records for value in _unanswered(r.requests)]
    return {
        "total_reasoning_tokens": reasoning,
        "total_answer_tokens": None
        if reasoning is None or output is None
        else max(output - reasoning, 0),
        "unanswered": sum(never),
    }


def _reasoning_tokens(record: StageRecord) -> float | None:
    columns = record.requests
    if not columns.reasoning_us:
        return 0
    if not columns.reasoning_tokens:
        return None
    return sum(compress(columns.reasoning_tokens, columns.ok))


def _unanswered(requests: RequestColumns) -> Iterable[bool]:
    """Return, for each answered request, whether its answer ended within its reasoning."""
    begun = requests.answer_us or requests.ttft_us
    return (bool(ok) and not us for us, ok in zip(begun, requests.ok, strict=True))


def connect_metrics(records: Sequence[StageRecord]) -> Metrics:
    """Return how much of TTFT the opening of connections (TCP, TLS) took.

    `mean_connect_ms` is the mean over all requests, with 0 for a request on an open connection, so
    that it can be subtracted from `mean_ttft_ms`. `max_connect_ms` is the longest time. Empty if a
    record does not have the times.
    """
    made = [
        record.connections for record in records if record.connections is not None
    ]
    if not made or len(made) < len(records):
        return {}
    requests = sum(len(record.requests.ok) for record in records)
    return {
        "mean_connect_ms": rounded(
            milliseconds(sum(each.total_us for each in made) / requests)
        ),
        "max_connect_ms": rounded(
            milliseconds(max(each.longest_us for each in made))
        ),
    }


def level_metrics(
    pool: Distribution,
    latency: str,
    percentiles: Sequence[str],
    *,
    deviation: bool = False,
) -> Metrics:
    """Return the mean, the median and these percentiles of a latency, in milliseconds.

    The keys are vLLM's, such as `mean_ttft_ms` and `p99_ttft_ms`. A figure is None if the pool has
    no values. `deviation` adds `std_ttft_ms`, which is slow to compute.
    """
    figures = {"mean": pool.mean(), "median": pool.percentile(50)}
    figures |= {"std": pool.deviation()} if deviation else {}
    figures |= {
        f"p{percentile_word(p)}": pool.percentile(float(p)) for p in percentiles
    }
    return {
        f"{name}_{latency}_ms": rounded(milliseconds(value))
        for name, value in figures.items()
    }


def percentile_word(percentile: str) -> str:
    """Format a percentile as vLLM does in its keys: 99 for "99.0", 99.9 for "99.90"."""
    value = float(percentile)
    return str(int(value)) if value == int(value) else str(value)


def duration_seconds(record: StageRecord) -> float:
    """Return the seconds from the first send to the last answer.

    The load generator's own figure, by its monotonic clock, is used if there is one.
    """
    measured = record.scalars.get("duration")
    if measured is not None and is_believable(measured) and measured > 0:
        return float(measured)
    return max(0, record.last_receive_unix_us - record.first_send_unix_us) / 1e6


def failed_requests(record: StageRecord) -> int:
    return len(record.requests.ok) - sum(record.requests.ok)


def milliseconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1000


def rounded(value: float | None) -> float | None:
    """Round to five significant digits; None stays None."""
    return None if value is None else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Largest latencies of a good request, in milliseconds; infinite without a limit."""

    ttft_ms: float = math.inf
    tpot_ms: float = math.inf
    e2el_ms: float = math.inf
    ttfrt_ms: float = math.inf
    ttfat_ms: float = math.inf


def good_requests(
    records: Sequence[StageRecord],
    limits: RequestLimits,
    *,
    since_due: bool = False,
) -> int:
    """Return how many requests kept every limit.

    With `since_due`, TTFT and E2EL include the wait in the client. A failed request keeps no limit.
    An answer of one token has no TPOT and so keeps its limit, as in vLLM.
    """
    ttft_limit = 1000 * limits.ttft_ms
    tpot_limit = 1000 * limits.tpot_ms
    e2el_limit = 1000 * limits.e2el_ms
    ttfrt_limit = 1000 * limits.ttfrt_ms
    ttfat_limit = 1000 * limits.ttfat_ms

    def good(of: RequestColumns) -> int:
        waits = of.queue_us if since_due else [0] * len(of.ok)
        columns = (of.ttft_us, of.e2el_us, of.output_tokens, waits, of.ok)
        begun = (
            of.reasoning_us or [0] * len(of.ok),
            # An answer that never began keeps no limit on its beginning.
            (us or math.inf for us in of.answer_us or of.ttft_us),
        )
        return sum(
            ttft + wait <= ttft_limit
            and e2el + wait <= e2el_limit
            and (tokens <= 1 or e2el - ttft <= tpot_limit * (tokens - 1))
            and reasoning + wait <= ttfrt_limit
            and answer + wait <= ttfat_limit
            for ttft, e2el, tokens, wait, ok, reasoning, answer in zip(
                *columns, *begun, strict=True
            )
            if ok
        )

    return sum(good(record.requests) for record in records)


def goodput(
    records: Sequence[StageRecord],
    limits: RequestLimits,
    *,
    since_due: bool = False,
) -> float | None:
    """Return how many requests a second kept every limit, over whole stages.

    None if the duration is 0.
    """
    seconds = math.fsum(map(duration_seconds, records))
    return ratio(good_requests(records, limits, since_due=since_due), seconds)


# Latencies as samples whose certainty is known: `benchrun_client.contract.certainty` has the
# method.

Samples = Mapping[str, contract.LatencySample]
"""Latency samples in microseconds, by the latency's name."""


def latency_samples(
    records: Sequence[StageRecord],
    *,
    users: int | None,
    at_once: bool = False,
    queued: bool = False,
    failed: bool = True,
    parts: Sequence[Plateau | None] | None = None,
) -> Samples:
    """Return every latency of a load point, in microseconds.

    `users` is the number of users of a closed loop; None means an open loop, a trace, or all
    `at_once`. `queued` adds the latencies that include the wait in the client. With `failed`,
    failed requests have infinite values, otherwise none. `parts` has the steady part of each
    record; only requests in it count. An entry that is None means that the stage has no steady
    part; None instead of `parts` means that all requests of a stage are its steady part. Latencies
    count as `since_due` says.
    """
    records = list(map(since_due, records))
    stages = []
    for number, requests in enumerate(record.requests for record in records):
        # Requests of an open loop are in the system from when they were due.
        due = (
            requests.start_us
            if users is not None
            else list(map(sub, requests.start_us, requests.queue_us))
        )
        ends = list(map(add, requests.start_us, requests.e2el_us))
        part = None if parts is None else parts[number]
        stages.append(
            contract.stage_shape(
                due,
                ends,
                users=users,
                at_once=at_once,
                counted=None if part is None else part.started,
                is_steady=parts is None or part is not None,
            )
        )
    rank = math.inf if failed else None
    found: dict[str, contract.LatencySample] = {
        name: contract.RequestSample(
            stages,
            [
                request_values(record.requests, name, failed=rank)
                for record in records
            ],
        )
        for name in (
            *(name for name in measured_latencies(records) if name != "itl"),
            *(queued_latencies(records) if queued else ()),
        )
    }
    if "itl" in measured_latencies(records):
        found["itl"] = _gap_sample(
            records, stages, parts or [None] * len(records), failed=failed
        )
    for sample in found.values():
        sample.copies = len(records) / max(
            1, len({record.prompts_digest for record in records})
        )
    return found


def _gap_sample(
    records: Sequence[StageRecord],
    stages: Sequence[contract.StageShape],
    parts: Sequence[Plateau | None],
    *,
    failed: bool,
) -> contract.GapSample:
    gaps = [
        _counted_gaps(record, part)
        for record, part in zip(records, parts, strict=True)
    ]
    ratios = [
        contract.failed_ratio(record.requests.ok, part) if failed else 0.0
        for record, part in zip(records, parts, strict=True)
    ]
    return contract.GapSample(stages, gaps, ratios)


def _counted_gaps(
    record: StageRecord, part: Plateau | None
) -> tuple[contract.GapCounts, contract.GapSlices | None]:
    return contract.counted_gaps(
        record.requests, record.gaps, record.gap_slices, part
    )


# Latencies of a plateau are those of requests *sent* in it, however late their answer; so the slow
# ones are not left out. Throughput is what *happened* in it: answers that were completed, and
# tokens that came. When single tokens came is not kept: the first is set at its TTFT, the others
# evenly from there to the end of the answer. A prompt's tokens count where the first token of its
# answer came: by then they were computed. Gaps between tokens (ITL) are those that *ended* in it.


def plateau_metrics(
    stages: Sequence[tuple[StageRecord, Plateau]],
    percentiles: Sequence[str],
    *,
    shown: Collection[str] = LATENCIES,
    queued: bool = False,
    limits: RequestLimits | None = None,
) -> Metrics:
    """Return the figures of the pooled steady parts of one or more stages.

    They are pooled as in `pooled_metrics`. `shown` names the latencies, `queued` adds those that
    include the wait in the client, `limits` adds goodput.
    """
    sent = sum(len(part.started) for _, part in stages)
    counted = counted_metrics(
        stages, percentiles, shown=shown, queued=queued, limits=limits
    )
    return plateau_totals(stages) | {"sent": sent} | counted


def counted_metrics(
    stages: Sequence[tuple[StageRecord, Plateau | None]],
    percentiles: Sequence[str],
    *,
    shown: Collection[str] = LATENCIES,
    queued: bool = False,
    limits: RequestLimits | None = None,
) -> Metrics:
    """Return the pooled latencies that objectives judge, and the goodput by them.

    They are of the steady part of each stage; None instead of it means the whole stage. For the
    other arguments see `plateau_metrics`.
    """
    counted = [counted_part(record, part) for record, part in stages]
    also = queued_latencies([record for record, _ in stages]) if queued else ()
    metrics: Metrics = {}
    for latency in (*shown, *also):
        metrics |= level_metrics(latencies(counted, latency), latency, percentiles)
    if limits is not None:
        seconds = math.fsum(
            duration_seconds(record) if part is None else part.length_us / 1e6
            for record, part in stages
        )
        good = good_requests(counted, limits, since_due=queued)
        metrics["request_goodput"] = rounded(ratio(good, seconds))
    return metrics


def counted_part(record: StageRecord, part: Plateau | None) -> StageRecord:
    """Return a copy of the record with the requests and latencies that count.

    They are those of its steady part; None means the whole stage. Latencies count as `since_due`
    says.
    """
    return since_due(record) if part is None else sent_in_plateau(record, part)


def plateau_totals(stages: Sequence[tuple[StageRecord, Plateau]]) -> Metrics:
    """Return counts and rates over these steady parts (plateaus).

    They are the number of completed answers, the seconds of the parts together, and requests and
    tokens a second.
    """
    seconds = sum(interval.length_us for _, interval in stages) / 1e6
    completed = sum(
        completed_in(record.requests, interval) for record, interval in stages
    )
    output = (
        math.fsum(
            output_tokens_in(record.requests, interval)
            for record, interval in stages
        )
        if all(counts_tokens(record) for record, _ in stages)
        else None
    )
    prompts = sum(
        input_tokens_in(record.requests, interval) for record, interval in stages
    )
    rates = (
        _whole_throughputs(seconds, completed, prompts)
        if has_whole_answers([record for record, _ in stages])
        else _throughputs(seconds, completed, prompts, output)
    )
    return {"completed": completed, "duration": rounded(seconds), **rates}


def sent_in_plateau(record: StageRecord, interval: Plateau) -> StageRecord:
    """Return a copy of the record with only what belongs to its steady part.

    These are the requests that were sent in it, and the gaps between tokens that ended in it.
    Latencies count as `since_due` says.
    """
    positions = sorted(interval.started)
    columns = {
        name: tuple(column[position] for position in positions)
        for name, column in record.requests
        if column
    }
    inside = record.requests.model_copy(update=columns)
    gaps, slices = _counted_gaps(record, interval)
    return since_due(
        record.model_copy(
            update={"requests": inside, "gaps": gaps, "gap_slices": slices}
        )
    )


def since_due(record: StageRecord) -> StageRecord:
    """Return the record with the latencies that are ours, as opposed to vLLM's of whole stages.

    Those of a load with due instants count from these; those of any other load stay as they are.
    """
    requests = contract.sent_when_due(record.requests, record.load)
    return record.model_copy(update={"requests": requests})


def completed_in(requests: RequestColumns, interval: Plateau) -> int:
    """Return how many answers were completed in an interval, whenever their requests were sent.

    The start of the interval does not belong to it, its end does.
    """
    rows = zip(requests.start_us, requests.e2el_us, requests.ok, strict=True)
    return sum(
        1
        for start, e2el, ok in rows
        if ok and interval.start_us < start + e2el <= interval.end_us
    )


def input_tokens_in(requests: RequestColumns, interval: Plateau) -> int:
    """Return the prompt tokens of answered requests whose first token came in an interval.

    The start of the interval does not belong to it, its end does.
    """
    rows = zip(
        requests.start_us,
        requests.ttft_us,
        requests.input_tokens,
        requests.ok,
        strict=True,
    )
    return sum(
        tokens
        for start, ttft, tokens, ok in rows
        if ok and interval.start_us < start + ttft <= interval.end_us
    )


def output_tokens_in(requests: RequestColumns, interval: Plateau) -> float:
    """Return how many output tokens of answered requests came in an interval.

    The start of the interval does not belong to it, its end does. The tokens of an answer are taken
    to come evenly between its first token and its end.
    """
    columns = (
        requests.start_us,
        requests.ttft_us,
        requests.e2el_us,
        requests.output_tokens,
        requests.ok,
    )
    begin = interval.start_us
    end = interval.end_us
    whole = 0
    parts = []
    for start, ttft, e2el, tokens, ok in zip(*columns, strict=True):
        first = start + ttft
        last = start + max(ttft, e2el)
        if not ok or tokens == 0 or last <= begin or first > end:
            continue
        if begin < first and last <= end:
            whole += tokens
        else:
            came_first = 1 if begin < first else 0
            parts.append(
                came_first
                + (tokens - 1)
                * (min(last, end) - max(first, begin))
                / (last - first)
            )
    return whole + math.fsum(parts)
