"""Explain why requests waited in the server, in a sentence with its numbers."""

from benchrun.api import Waiting, WaitingReason
from benchrun.judge.rules.load import Overload
from benchrun.judge.rules.rule import number
from benchrun.measure import Hold, MeanLengths, Pressure, ServerLimits, rounded

# Share of the samples: a rarer queue is just the beginning of the load.
MIN_QUEUED_SHARE = 0.1
MIN_QUEUE_MS = 1.0
"""Least mean wait, in milliseconds as the servers count it, that matters."""
STAYED_SHARE = 0.95
"""Requests "stayed" at the limit if the mean number of running requests is at least this share of
it."""


def percent(value: float | None) -> str:
    """Return a percentage as text, such as "9.4 %"; "an unknown share" for None."""
    return "an unknown share" if value is None else f"{number(value)} %"


# Mean number of waiting requests: fewer are just entering the engine.
MIN_WAITING = 1.0


def waiting(
    pressure: Pressure | None,
    limits: ServerLimits,
    *,
    lengths: MeanLengths | None,
    overload: Overload | None,
    queue_ms: float | None = None,
    waiting_by_times: float | None = None,
) -> Waiting:
    """Explain why requests waited in the server.

    `pressure` is None if no sample caught the server busy. `overload` is set if an open loop sends
    more requests than are completed. `queue_ms` is the mean wait of a request as the servers count
    it, which also covers the time between samples. `waiting_by_times` is the mean number of waiting
    requests by the same count. If it shows a queue that the samples missed, the reason is unknown.
    """
    if pressure is None and queue_ms is not None and queue_ms < MIN_QUEUE_MS:
        found = Waiting(
            reason="None",
            sentence="The server was idle in every sample.",
            evidence={"samples": 0},
        )
    elif pressure is None:
        sentence = (
            "Why requests waited is unknown, because no sample was taken while the server was "
            "busy: measure a longer stage."
        )
        found = Waiting(
            reason="Unknown", sentence=sentence, evidence={"samples": 0}
        )
    elif (
        pressure.queued >= MIN_QUEUED_SHARE * pressure.samples
        and overload is not None
    ):
        found = _beyond_capacity(pressure, overload)
    else:
        reason, sentence = _reason(pressure, limits, lengths)
        if reason == "None" and _missed_a_queue(pressure, waiting_by_times):
            reason = "Unknown"
            sentence = (
                f"By the servers' own times {number(waiting_by_times)} requests waited on average, "
                f"but only {pressure.queued} of {pressure.samples} samples show a queue: too few "
                "to tell what the requests waited for."
            )
        tokens = (
            {"maxNumBatchedTokens": limits.step_tokens}
            if reason == "TokenBudget"
            else {}
        )
        found = Waiting(
            reason=reason,
            sentence=sentence,
            evidence={**pressure_evidence(pressure), **tokens},
        )
    if queue_ms is None:
        return found
    sentence = (
        f"{found.sentence} By the servers' own count a request waited {number(queue_ms)} ms on "
        "average."
    )
    evidence = {**found.evidence, "meanQueueTimeMs": rounded(queue_ms)}
    return found.model_copy(update={"sentence": sentence, "evidence": evidence})


def _missed_a_queue(pressure: Pressure, by_times: float | None) -> bool:
    """Return whether, by the servers' own times, there was a queue that the samples missed."""
    least = max(MIN_WAITING, MIN_QUEUED_SHARE * pressure.running_mean)
    return by_times is not None and by_times >= least


def _reason(
    pressure: Pressure, limits: ServerLimits, lengths: MeanLengths | None
) -> tuple[WaitingReason, str]:
    """Return the reason and its sentence, for a server whose capacity exceeds the arrivals."""
    usage = pressure.kv_max_percent
    if pressure.queued < MIN_QUEUED_SHARE * pressure.samples:
        return "None", (
            f"Hardly any request waited in the server: a queue in {pressure.queued} of "
            f"{pressure.samples} samples "
            f"({number(pressure.waiting_mean)} waiting on average), with "
            f"{number(pressure.running_mean)} running on average."
        )
    queue = (
        f"Requests waited in {pressure.queued} of {pressure.samples} samples "
        f"({number(pressure.waiting_mean)} on average, "
        f"{number(pressure.waiting_max)} at most)"
    )
    if pressure.hold is None:
        return (
            "Unknown",
            f"{queue}: the samples can't tell what these requests waited for.",
        )
    if pressure.hold is Hold.SEQUENCES:
        cache = (
            ""
            if usage is None
            else f"; the KV cache was not full, with at most {percent(usage)} in use"
        )
        return "SequenceLimit", f"{queue} while {held_at(pressure)}{cache}."
    if pressure.hold is Hold.KV_CACHE:
        preempted = (
            f", and {number(pressure.preemptions)} were preempted"
            if pressure.preemptions
            else ""
        )
        by = f"{number(pressure.queued_running)} running requests{preempted}"
        return (
            "KVCacheFull",
            f"{queue} because the KV cache was full: up to {percent(usage)} in use by {by}.",
        )
    limit = pressure.sequence_limit
    bound = (
        f"at most {number(pressure.running_max)}"
        if limit is None
        else f"below the limit of {number(limit)}"
    )
    room = f"({bound}) and the KV cache was not full ({percent(usage)} at most)"
    each = "requests wait because each step takes a limited number of tokens"
    if limits.step_tokens is not None and lengths is not None:
        prompts = number(round(limits.step_tokens / max(1.0, lengths.prompt), 1))
        each = (
            f"a step takes {limits.step_tokens} tokens, about {prompts} prompts of "
            f"{number(lengths.prompt)}"
        )
    return (
        "TokenBudget",
        f"{queue} although only {number(pressure.queued_running)} ran {room}: {each}.",
    )


def cache_in_use(pressure: Pressure, before: str) -> str:
    """Return a text with the highest usage of the KV cache; empty if it is unknown.

    The text begins with `before`, such as "with at most 9.4 % of the KV cache in use".
    """
    usage = pressure.kv_max_percent
    return (
        "" if usage is None else f"{before}{percent(usage)} of the KV cache in use"
    )


def held_at(pressure: Pressure) -> str:
    """Return as text how many requests ran while others waited.

    An example is "running stayed at 256, the server's max-num-seqs". It says "reached" instead of
    "stayed at" if requests that end together leave the gauge below the limit for a part of each
    step.
    """
    if pressure.hold is Hold.SEQUENCES:
        whose = (
            f"the server's {pressure.sequence_limit_name}"
            if pressure.sequence_limit_is_set
            else "the highest number in any sample"
        )
        limit = number(pressure.sequence_limit)
        mean = pressure.queued_running
        if (
            mean is not None
            and pressure.sequence_limit is not None
            and mean < STAYED_SHARE * pressure.sequence_limit
        ):
            return f"running reached {limit}, {whose} ({number(mean)} on average)"
        return f"running stayed at {limit}, {whose}"
    usage = ""
    if pressure.kv_max_percent is not None:
        usage = f" and KV cache usage reached {percent(pressure.kv_max_percent)}"
    return f"{number(pressure.queued_running)} ran on average{usage}"


def _beyond_capacity(pressure: Pressure, overload: Overload) -> Waiting:
    sentence = (
        f"Arrivals exceed capacity: {number(overload.arrival_rate)} requests a second came and "
        f"{number(overload.completion_rate)} were completed, so that requests in flight went from "
        f"{number(overload.under_way_before)} to {number(overload.under_way_after)} in "
        f"{number(overload.seconds)} s; "
        f"{held_at(pressure)}."
    )
    evidence: dict[str, float | str | None] = {
        "arrivalsPerSecond": rounded(overload.arrival_rate),
        "completionsPerSecond": rounded(overload.completion_rate),
        "underWayBefore": overload.under_way_before,
        "underWayAfter": overload.under_way_after,
        "seconds": rounded(overload.seconds),
        "runningWhileQueued": rounded(pressure.queued_running),
        "kvCacheMaxPercent": rounded(pressure.kv_max_percent),
    }
    return Waiting(reason="BeyondCapacity", sentence=sentence, evidence=evidence)


def pressure_evidence(
    pressure: Pressure, *names: str
) -> dict[str, float | str | None]:
    """Return those of the named figures that are known; without names, all known figures."""
    figures = {
        "samples": pressure.samples,
        "queuedSamples": pressure.queued,
        "waitingMean": rounded(pressure.waiting_mean),
        "waitingMax": pressure.waiting_max,
        "runningWhileQueued": rounded(pressure.queued_running),
        "sequenceLimit": pressure.sequence_limit,
        "kvCacheMaxPercent": rounded(pressure.kv_max_percent),
        "preemptions": pressure.preemptions,
    }
    return {
        name: value
        for name in names or figures
        if (value := figures[name]) is not None
    }
