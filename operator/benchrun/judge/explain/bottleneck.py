"""The bottleneck of a load point, in a sentence with its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api import Bottleneck, LimitKind, Waiting
from benchrun.judge.explain.waiting import (
    MIN_QUEUED_SHARE,
    cache_in_use,
    held_at,
    percent,
    pressure_evidence,
)
from benchrun.judge.rules.client import saturated_sentence
from benchrun.judge.rules.rule import Evidence, StageFinding, number
from benchrun.measure import (
    Hold,
    MeanLengths,
    OperatingPoint,
    OperatingPointPair,
    Pressure,
    Stretch,
    response_to_load,
    rounded,
)


def client_limits(finding: StageFinding) -> Bottleneck:
    """Build the bottleneck Client, for a client that could not keep up.

    `finding` is the finding ClientSaturated at its worst stage. Its evidence has the figures that
    crossed their thresholds.
    """
    crossed = str(finding.evidence.get("crossed", "")).split(", ")
    seen = {
        name: value for name, value in finding.evidence.items() if name in crossed
    }
    sentence = (
        "The client falls behind before the server does. "
        f"{saturated_sentence(finding.evidence)}"
    )
    return bottleneck_of("Client", sentence, seen)


def throughput_is_flat(
    pair: OperatingPointPair, where: str, span: str = ""
) -> Bottleneck:
    """Build the bottleneck Compute for more running requests without more throughput.

    `where` says what is compared, such as "from chat/rate=1 to chat/rate=4". `span` says in what
    interval the change of throughput lies, such as "; output: -1.0 to +2.0 %", or is empty.
    """
    low = pair.low
    high = pair.high
    usage = ""
    if low.kv_percent is not None and high.kv_percent is not None:
        usage = f" and KV cache usage from {percent(low.kv_percent)} to {percent(high.kv_percent)}"
    sentence = (
        f"Throughput stays flat {where} ({number(low.throughput)} and {number(high.throughput)} "
        f"tok/s{span}) while "
        f"running goes from {number(low.running)} to {number(high.running)}{usage}: compute is "
        "the limit."
    )
    return bottleneck_of("Compute", sentence, pair_evidence(pair))


def kept_up(pressure: Pressure, point: OperatingPoint | None) -> Bottleneck:
    """Build the bottleneck None for a server that kept up: no request waited.

    No comparison with another load point shows a limit either.
    """
    rate = f" at {number(point.throughput)} tok/s" if point is not None else ""
    sentence = (
        f"The server kept up{rate}: {number(pressure.running_mean)} requests ran on average and "
        f"{number(pressure.waiting_mean)} waited{cache_in_use(pressure, ', with at most ')}."
    )
    evidence = pressure_evidence(pressure, "waitingMean", "kvCacheMaxPercent")
    return bottleneck_of(
        "None",
        sentence,
        {"runningMean": rounded(pressure.running_mean), **evidence},
    )


def one_at_a_time(pressure: Pressure) -> Bottleneck:
    """Build the bottleneck None for a load with at most one request in flight, and none waiting.

    A limit can only show if several requests could run.
    """
    sentence = (
        "No limit shows: at most 1 request was in flight at a time, so only the latency of the "
        "engine's steps decides."
    )
    return bottleneck_of(
        "None", sentence, {"runningMax": rounded(pressure.running_max)}
    )


def steps_are_full(
    full: response_to_load.FullSteps, pressure: Pressure
) -> Bottleneck:
    """Build the bottleneck Compute for a throughput that does not depend on the queue's length."""
    sentence = (
        f"Prompt throughput holds at {number(full.prompt_rate)} tok/s (changing by "
        f"{full.change_percent:+.1f} %) while "
        f"{number(pressure.waiting_mean)} waited on average ({number(pressure.waiting_max)} at "
        "most), with "
        f"{number(pressure.queued_running)} running{cache_in_use(pressure, ' and ')}: steps "
        f"are full, about {number(full.step_tokens)} tokens each, so compute is the limit."
    )
    evidence: Evidence = {
        "promptTokensPerSecond": rounded(full.prompt_rate),
        "changePercent": rounded(full.change_percent),
        "stepTokens": rounded(full.step_tokens),
        **pressure_evidence(pressure, "runningWhileQueued", "kvCacheMaxPercent"),
    }
    return bottleneck_of("Compute", sentence, evidence)


def held_back(pressure: Pressure, grew: OperatingPointPair | None) -> Bottleneck:
    """Build the bottleneck that keeps requests in the queue.

    It is SequenceLimit if as many requests run as the server allows, and KVMemory if as many run as
    the KV cache holds. Otherwise it is Unknown: the steps of the engine may be full or not. `grew`
    is a comparison in which throughput still rose with the number of running requests.
    """
    limit: LimitKind = "Unknown"
    waited = f"while {number(pressure.waiting_mean)} waited on average"
    if pressure.queued < pressure.samples:
        waited = (
            f"while requests waited, in {pressure.queued} of {pressure.samples} samples "
            f"({number(pressure.waiting_mean)} on average over all)"
        )
    running = number(pressure.queued_running)
    usage = percent(pressure.kv_max_percent)
    if pressure.hold is Hold.SEQUENCES:
        limit = "SequenceLimit"
        sentence = f"The limit on running requests: {held_at(pressure)}, {waited}."
    elif pressure.hold is Hold.KV_CACHE:
        preempted = (
            f", {number(pressure.preemptions)} preemptions"
            if pressure.preemptions
            else ""
        )
        fill = (
            f"{running} running requests fill it (up to {usage} in use{preempted})"
        )
        limit = "KVMemory"
        sentence = f"KV memory is the limit: {fill}, {waited}."
    else:
        sentence = (
            f"Bottleneck unknown from this load alone: {running} ran, "
            f"{waited}{cache_in_use(pressure, ', with at most ')}; "
            "measure a higher load, too, to see whether throughput grows."
        )
    if grew is not None and limit != "Unknown":
        sentence = f"{sentence} {growth(grew)}."
    figures = (
        "runningWhileQueued",
        "waitingMean",
        "kvCacheMaxPercent",
        "preemptions",
    )
    return bottleneck_of(limit, sentence, pressure_evidence(pressure, *figures))


def growth(pair: OperatingPointPair) -> str:
    """Return a clause such as "Throughput grows by 80 % as running goes from 20 to 60"."""
    running = f"{number(pair.low.running)} to {number(pair.high.running)}"
    return f"Throughput grows by {number(pair.change_percent)} % as running goes from {running}"


def pair_evidence(pair: OperatingPointPair) -> Evidence:
    """Return the numbers of a comparison of two operating points as evidence."""
    return {
        "throughputLow": rounded(pair.low.throughput),
        "throughputHigh": rounded(pair.high.throughput),
        "changePercent": rounded(pair.change_percent),
        "runningLow": rounded(pair.low.running),
        "runningHigh": rounded(pair.high.running),
        "kvCacheLowPercent": rounded(pair.low.kv_percent),
        "kvCacheHighPercent": rounded(pair.high.kv_percent),
    }


def bottleneck_of(
    limit: LimitKind, sentence: str, evidence: Evidence
) -> Bottleneck:
    """Build a bottleneck, and leave out evidence that is None."""
    kept = {name: value for name, value in evidence.items() if value is not None}
    return Bottleneck(limit=limit, sentence=sentence, evidence=kept)


# Compute is the bottleneck only where it shows: throughput that stays flat while more runs at once,
# between load points or within one, or steps full of prompts. Where throughput grew with what ran,
# or nothing is known about it, the bottleneck is what keeps requests in the queue.

MAX_PREEMPTED_PERCENT = 1.0
"""Largest percentage of preempted requests. With more, much work is done twice, and a throughput
that does not grow does not prove that compute is the limit."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was measured at the servers of one role at one load point."""

    waiting: Waiting
    # Throughput and number running; None without samples or throughput.
    point: OperatingPoint | None
    pressure: Pressure | None
    stretches: Sequence[Stretch]
    lengths: MeanLengths | None
    requests: int
    most_in_flight: int  # Most requests in flight at the client.
    gauge_holds: bool  # Whether the gauge of running requests holds at any time.
    always_busy: bool
    """Whether the load keeps the server supplied: a closed loop, or all requests at once."""
    client: (
        StageFinding | None
    )  # The finding ClientSaturated; None if there is none.

    @property
    def queues(self) -> bool:
        """Return whether requests waited in the server in more than a few samples."""
        found = self.pressure
        return (
            found is not None
            and found.queued > 0
            and found.queued >= MIN_QUEUED_SHARE * found.samples
        )

    @property
    def works_twice(self) -> bool:
        """Return whether preemptions made much of the work be done twice; False if unknown."""
        preemptions = (
            self.pressure.preemptions if self.pressure is not None else None
        )
        return (
            preemptions is not None
            and 100 * preemptions > MAX_PREEMPTED_PERCENT * self.requests
        )

    @property
    def comparable(self) -> OperatingPoint | None:
        """Return the operating point if it can be compared with others, else None.

        It can't be compared if the client limits its throughput, or if preemptions made much of the
        work be done twice.
        """
        return None if self.works_twice or self.client is not None else self.point


def bottleneck(observed: Observed, others: Sequence[OperatingPoint]) -> Bottleneck:
    """Decide what the bottleneck of a load point is.

    `others` has the comparable operating points of the other load points of its workload.
    """
    # A client that is late and yet keeps a queue at the server is not the bottleneck.
    if observed.client is not None and not observed.queues:
        return client_limits(observed.client)
    pressure = observed.pressure
    if pressure is None:
        return bottleneck_of(
            "Unknown",
            "Bottleneck unknown, because no sample was taken while the server was busy: measure a "
            "longer stage.",
            {"samples": 0},
        )
    if not observed.queues and observed.most_in_flight <= 1:
        return one_at_a_time(pressure)
    point = observed.comparable
    pairs = [
        pair
        for other in others
        if point is not None
        for pair in response_to_load.comparisons([point, other])
    ]
    # The widest comparison with another load point that shows no gain.
    among = max(
        (pair for pair in pairs if pair.is_flat),
        key=lambda pair: pair.running_ratio,
        default=None,
    )
    if among is not None:
        return throughput_is_flat(
            among, f"from {among.low.name} to {among.high.name}"
        )
    stretches = observed.stretches
    busy = observed.always_busy
    # Samples within a load point can be compared only if they differ because the load did.
    is_phase = observed.works_twice or not observed.gauge_holds
    inside = (
        None if is_phase else response_to_load.within(stretches, always_busy=busy)
    )
    if inside is not None and inside.is_flat:
        return throughput_is_flat(inside, "within this load point")
    if not observed.queues:
        return kept_up(pressure, observed.point)
    # Full steps prove compute unless throughput grew with what ran, or work was done twice.
    grew = inside if inside is not None and inside.grows else None
    if grew is None and not observed.works_twice:
        full = response_to_load.full_steps(pressure, stretches, observed.lengths)
        if full is not None:
            return steps_are_full(full, pressure)
    return held_back(pressure, grew)
