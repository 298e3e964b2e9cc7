"""Rules on the client: is it overloaded, and is TTFT longer there than at the server?

A client is overloaded if it sends late or uses up its CPU. Its processes may also start at
different times. If TTFT is longer at the client and the client is not the cause, then the cause is
a slow network path, a busy API server of vLLM, or unknown.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFinding,
    StageRule,
    graded,
    in_words,
    times,
)
from benchrun.judge.stage_facts import StageFacts
from benchrun.measure import (
    Distribution,
    counters,
    known,
    milliseconds,
    ratio,
    rounded,
)

# Name of TTFT at the client that neither the servers nor the path account for, in evidence.
GAP = "unexplainedMs"
SHOWN_STOLEN_PERCENT = 5.0
"""Least percentage of stolen CPU time that the sentence mentions, because any virtual machine loses
a little. The evidence always has the percentage."""

# Sentences by the worst sign of an overloaded client.
_SIGN_SENTENCES: Mapping[str, str] = {
    GAP: (
        "Neither the server nor the network path explains {unexplainedMs} ms of TTFT "
        "(threshold {line} ms)"
    ),
    "sendLagP99Ms": "Requests were sent {sendLagP99Ms} ms late at p99 (threshold {line} ms)",
    "eventLoopLagP99Ms": (
        "The client's event loop was {eventLoopLagP99Ms} ms late at p99 (threshold {line} ms)"
    ),
    "coresAProcess": "Each client process used {coresAProcess} cores (threshold {line})",
}


class Sign(NamedTuple):
    """One figure of an overloaded client, and the threshold that it should not cross."""

    name: str
    value: float
    threshold: float
    # Multiple of the threshold above which the stage is Invalid.
    invalid_factor: float = math.inf

    @property
    def load(self) -> float:
        """Return how many times the threshold the value is."""
        return times(self.value, self.threshold)


def client_saturated(stage: StageFacts) -> Found:
    """Find a client that can't keep up with its load.

    The signs are late sends, a late event loop, a CPU core in full use, and a TTFT that is longer
    than at the server because of these. An offline engine has none of these signs, because it
    measures the times in its own process.
    """
    client = stage.record.client
    crossed = crossed_signs(stage)
    if not crossed:
        known = client.lag_p99_us is not None or stage.expected.offline
        return (
            []
            if known
            else [
                NotChecked(
                    Code.CLIENT_SATURATED,
                    "the record does not say how late the client's event loop was",
                )
            ]
        )
    worst = max(
        crossed, key=lambda sign: (sign.load > sign.invalid_factor, sign.load)
    )
    evidence: Evidence = {
        sign.name: rounded(sign.value) for sign in _signs(stage)
    } | {
        "eventLoopLagMaxMs": rounded(milliseconds(client.lag_max_us)),
        "proxyLookups": "true" if stage.record.engine.trust_env else "false",
        "serverTtftMs": rounded(stage.server_ttft_ms),
        "stolenPercent": rounded(stolen_percent(stage)),
        "crossed": ", ".join(sign.name for sign in crossed),
        "worst": worst.name,
        "line": rounded(worst.threshold),
        "lineForInvalid": rounded(worst.invalid_factor * worst.threshold)
        if worst.invalid_factor < math.inf
        else None,
    }
    severity = graded(worst.load, worst.invalid_factor)
    return [
        StageFinding(
            Code.CLIENT_SATURATED, severity, stage.id, evidence, weight=worst.load
        )
    ]


def saturated_sentence(evidence: Evidence) -> str:
    """Return the sentence of a ClientSaturated finding; it names the worst sign."""
    worst = _SIGN_SENTENCES.get(
        str(evidence.get("worst")), "These thresholds were crossed: {crossed}"
    )
    stolen = evidence.get("stolenPercent")
    is_shown = isinstance(stolen, int | float) and stolen >= SHOWN_STOLEN_PERCENT
    also = (
        ", and the hypervisor took {stolenPercent} % of the CPU of its node"
        if is_shown
        else ""
    )
    return in_words(f"{worst}: the client was short of CPU{also}.", evidence)


def client_throttled(stage: StageFacts) -> Found:
    """Find a client that the kernel throttled in at least one CPU period."""
    periods = stage.record.client.throttled_periods
    if periods == 0 or stage.expected.offline:
        return []
    if periods is None:
        return [
            NotChecked(
                Code.CLIENT_THROTTLED,
                "the client could not read its cgroup's cpu.stat",
            )
        ]
    evidence = {
        "throttledPeriods": periods,
        "wallSeconds": rounded(stage.record.client.wall_seconds),
    }
    return [
        StageFinding(
            Code.CLIENT_THROTTLED, "Suspect", stage.id, evidence, weight=periods
        )
    ]


def crossed_signs(stage: StageFacts) -> list[Sign]:
    """Return the signs of overload that are beyond their thresholds."""
    return [
        sign
        for sign in _signs(stage)
        if sign.load > 1 and (sign.name != GAP or _made_gap(stage))
    ]


def _made_gap(stage: StageFacts) -> bool:
    """Return whether the client can have caused the gap between its TTFT and the servers'.

    A CPU core in full use can cause any gap. Otherwise two things must be true: the core was busy
    or the event loop was late, and the gap is not longer than a few turns of the event loop, each
    as late as it often was, or than one stall, for which all requests of a short stage may wait.
    """
    thresholds = stage.thresholds
    stall_ms = milliseconds(stage.record.client.lag_p99_us) or 0.0
    often_ms = _often_late_ms(stage) or 0.0
    cores = _cores(stage) or 0.0
    gap_ms = unexplained_gap_ms(stage) or 0.0
    if cores > thresholds.client_cores_suspect:
        return True
    is_busy = (
        cores > thresholds.client_cores_with_gap
        or stall_ms > _lag_threshold_ms(stage)
    )
    return is_busy and gap_ms <= max(thresholds.client_turns * often_ms, stall_ms)


def _often_late_ms(stage: StageFacts) -> float | None:
    """Return how late the event loop was at p99 of its ticks, but at least three times.

    In a stage of a second p99 is a single tick. A record of an older client has only p99. Return
    None if the lag is unknown.
    """
    client = stage.record.client
    if client.lag_p99_us is None:
        return None
    return milliseconds(min(known([client.lag_p99_us, client.lag_thrice_us])))


_OFTEN = 3
"""How many requests are late often; p99 of fewer than 300 is one or two of them."""


def _often_sent_late_ms(stage: StageFacts) -> float:
    """Return how late requests were sent at p99, but at least three of them, in milliseconds.

    Of fewer than three requests: all of them. One late request is an accident of the client's
    machine, and no client that can't keep up.
    """
    waits = sorted(stage.requests.queue_us)
    if not waits:
        return 0.0
    often_us = waits[max(len(waits) - _OFTEN, 0)]
    p99_us = Distribution.of(waits).percentile(99)
    return milliseconds(min(known([p99_us, often_us]))) or 0.0


def _signs(stage: StageFacts) -> list[Sign]:
    if stage.expected.offline:
        return []
    thresholds = stage.thresholds
    signs = []
    factor = thresholds.client_invalid_factor
    max_lag_ms = _lag_threshold_ms(stage)
    gap_ms = unexplained_gap_ms(stage)
    cores = _cores(stage)
    if gap_ms is not None:
        signs.append(Sign(GAP, gap_ms, gap_threshold_ms(stage), factor))
    if stage.load.has_due_instants or stage.load.sessions_at_once is not None:
        late_ms = _often_sent_late_ms(stage)
        signs.append(Sign("sendLagP99Ms", late_ms, max_lag_ms, factor))
    lag_ms = _often_late_ms(stage)
    if lag_ms is not None:
        signs.append(Sign("eventLoopLagP99Ms", lag_ms, max_lag_ms, factor))
    if cores is not None:
        signs.append(Sign("coresAProcess", cores, thresholds.client_cores_suspect))
    return signs


def _cores(stage: StageFacts) -> float | None:
    client = stage.record.client
    return ratio(client.cpu_seconds / client.processes, client.wall_seconds)


def _lag_threshold_ms(stage: StageFacts) -> float:
    """Return the threshold of the client's lag in milliseconds.

    It is a share of the shortest duration that a late client distorts, but not less than a minimum.
    """
    bent = [
        ms
        for ms in (stage.server_ttft_ms, stage.mean_ttft_ms, stage.mean_decode_ms)
        if ms is not None
    ]
    share = (
        stage.thresholds.client_lag_suspect_percent / 100 * min(bent, default=0.0)
    )
    return max(stage.thresholds.client_lag_suspect_ms, share)


def gap_threshold_ms(stage: StageFacts) -> float:
    """Return how many ms longer TTFT may be at the client than at the servers."""
    return _much_beside_ttft_ms(
        stage, floor_ms=stage.thresholds.ttft_gap_suspect_ms
    )


def _much_beside_ttft_ms(stage: StageFacts, *, floor_ms: float) -> float:
    """Return the shortest delay, in milliseconds, that is considerable compared with TTFT.

    This is a share of the mean TTFT at the servers, or at the client if the servers' is unknown,
    but at least `floor_ms`.
    """
    ttft_ms = (
        stage.server_ttft_ms
        if stage.server_ttft_ms is not None
        else stage.mean_ttft_ms or 0.0
    )
    return max(floor_ms, stage.thresholds.ttft_gap_suspect_percent / 100 * ttft_ms)


def round_trip_ms(stage: StageFacts) -> float | None:
    """Return the median round trip of the probe before the first stage, in milliseconds.

    Return None if the record has no round trips.
    """
    trips = stage.record.round_trips
    return None if trips is None else trips.median_us / 1000


def unexplained_gap_ms(stage: StageFacts) -> float | None:
    """Return the part of TTFT, in ms, that neither the servers nor the path explain.

    This is TTFT at the client minus TTFT at the servers, minus the time to set up connections and
    the round trips that a TTFT may include. Return None if it is unknown.
    """
    gap_ms = stage.ttft_gap_ms
    made = stage.record.connections
    trip_ms = round_trip_ms(stage) or 0.0
    connect_ms = (
        trip_ms if made is None else made.total_us / 1000 / len(stage.requests.ok)
    )
    return (
        None
        if gap_ms is None
        else gap_ms - connect_ms - stage.thresholds.path_round_trips * trip_ms
    )


def stolen_percent(stage: StageFacts) -> float | None:
    """Return how much CPU time the hypervisor withheld from the client's node, in percent.

    All the CPU time that the node used or wanted is 100 %. Return None if it is unknown.
    """
    client = stage.record.client
    return (
        None
        if client.stolen_seconds is None
        else ratio(client.stolen_seconds, client.node_cpu_seconds, 100)
    )


def shards_out_of_step(stage: StageFacts) -> Found:
    """Find client processes that may have started the load at different times.

    The time between the first start and the last is measured with the clock of the gate, the server
    at which the processes meet before they start. The uncertainty of the other clocks is added.
    """
    shards = stage.record.shards
    threshold = stage.thresholds.skew_suspect_ms
    if shards is None:
        return []
    apart = (shards.start_skew_us + shards.clock_error_us) / 1000
    if apart <= threshold:
        return []
    error_ms = rounded(shards.clock_error_us / 1000)
    evidence = {
        "apartMs": rounded(apart),
        "clockErrorMs": error_ms,
        "processes": shards.count,
        "suspectMs": threshold,
    }
    return [
        StageFinding(
            Code.SHARDS_OUT_OF_STEP, "Suspect", stage.id, evidence, weight=apart
        )
    ]


_CODES = [Code.FRONTEND_SATURATED, Code.CLIENT_SERVER_GAP]


def path_slow(stage: StageFacts) -> Found:
    """Find a network path that is slow or loses packets.

    The path is slow if the median round trip is long compared with TTFT. The round trips were
    measured one after the other before the first stage.
    """
    trips = stage.record.round_trips
    lost_segments = stage.record.client.lost_segments
    ttft_ms = stage.mean_ttft_ms
    if stage.expected.offline or ttft_ms is None:
        return []
    thresholds = stage.thresholds
    evidence = dict[str, float | str | None]()
    by_share = thresholds.lost_segments_suspect_percent / 100 * len(stage.answered)
    lost = Sign(
        "lostSegments",
        lost_segments or 0,
        max(thresholds.lost_segments_suspect, by_share),
    )
    limit_ms = _much_beside_ttft_ms(stage, floor_ms=thresholds.path_suspect_ms)
    trip = Sign("roundTripMs", round_trip_ms(stage) or 0.0, limit_ms)
    if trips is not None and trip.load > 1:
        evidence = {
            "roundTripMs": rounded(trip.value),
            "roundTripP95Ms": rounded(milliseconds(trips.p95_us)),
            "roundTrips": trips.count,
            "lineMs": rounded(trip.threshold),
            "meanTtftMs": rounded(ttft_ms),
            "serverTtftMs": rounded(stage.server_ttft_ms),
        }
    if lost.load > 1:
        much = {
            "suspectSegments": rounded(lost.threshold),
            "answered": len(stage.answered),
        }
        evidence |= {lost.name: lost_segments, **much}
    if evidence:
        return [
            StageFinding(
                Code.PATH_SLOW,
                "Suspect",
                stage.id,
                evidence,
                weight=max(trip.load, lost.load),
            )
        ]
    missing = [
        name
        for name, value in (("round trips", trips), ("lost packets", lost_segments))
        if value is None
    ]
    return (
        [
            NotChecked(
                Code.PATH_SLOW,
                f"the client did not measure {' and '.join(missing)}",
            )
        ]
        if missing
        else []
    )


def gap_beyond_client(stage: StageFacts) -> Found:
    """Find a TTFT gap between client and server that neither client nor network explains.

    If vLLM's API server uses most of a CPU core, it is the cause; otherwise the cause is unknown.
    The server measures TTFT from the moment when its API server has read the request. Only the
    client's TTFT includes a wait before that moment.
    """
    if stage.expected.offline or not stage.answered:
        return []
    # Behind a proxy the API servers answer the proxy, whose own rule looks at it.
    codes = (
        [Code.CLIENT_SERVER_GAP] if counters.proxy_edges(stage.record) else _CODES
    )
    gap_ms = unexplained_gap_ms(stage)
    threshold = gap_threshold_ms(stage)
    if gap_ms is None:
        return [
            NotChecked(
                code,
                "the servers' own TTFT is unknown",
            )
            for code in codes
        ]
    if gap_ms <= threshold:
        return []
    # CPU of the busiest server; None where no metrics page has it: with several API servers vLLM
    # leaves it out.
    used = known(
        counters.rise_at(edge, counters.CPU)
        for edge in stage.edges
        if not counters.is_reset(edge)
    )
    cores = max(used) / stage.seconds if used and stage.seconds > 0 else None
    is_full = (
        cores is not None
        and cores > stage.thresholds.frontend_cores_suspect
        and codes is _CODES
    )
    if not is_full and any(sign.name == GAP for sign in crossed_signs(stage)):
        return []
    evidence = {
        "ttftGapMs": rounded(stage.ttft_gap_ms),
        GAP: rounded(gap_ms),
        "lineMs": rounded(threshold),
        "serverTtftMs": rounded(stage.server_ttft_ms),
        "apiServerCores": rounded(cores),
        "suspectCores": stage.thresholds.frontend_cores_suspect,
        "roundTripMs": rounded(round_trip_ms(stage)),
        "eventLoopLagP99Ms": rounded(milliseconds(stage.record.client.lag_p99_us)),
        "stolenPercent": rounded(stolen_percent(stage)),
    }
    if is_full:
        return [
            StageFinding(
                Code.FRONTEND_SATURATED,
                "Suspect",
                stage.id,
                evidence,
                weight=cores or 0.0,
            )
        ]
    unknown = (
        [
            NotChecked(
                Code.FRONTEND_SATURATED,
                "the server's metrics do not tell the CPU seconds of vLLM's API server",
            )
        ]
        if cores is None
        else []
    )
    return [
        StageFinding(
            Code.CLIENT_SERVER_GAP, "Suspect", stage.id, evidence, weight=gap_ms
        ),
        *unknown,
    ]


STAGE_RULES: tuple[StageRule, ...] = (
    client_saturated,
    path_slow,
    gap_beyond_client,
    client_throttled,
    shards_out_of_step,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.CLIENT_SATURATED: saturated_sentence,
    Code.PATH_SLOW: (
        "[A round trip to the server takes {roundTripMs} ms (threshold {lineMs} "
        "ms), compared with a mean TTFT of {meanTtftMs} ms. ][TCP lost "
        "{lostSegments} segments in {answered} answers (threshold "
        "{suspectSegments}).]"
    ),
    Code.FRONTEND_SATURATED: (
        "vLLM's API server used {apiServerCores} cores (threshold "
        "{suspectCores}), and requests waited {unexplainedMs} ms before the "
        "engine (threshold {lineMs} ms)."
    ),
    Code.CLIENT_SERVER_GAP: (
        "TTFT at the client is {ttftGapMs} ms longer than at the server; "
        "connection set-up, round trips and the client's CPU do not explain "
        "{unexplainedMs} ms of it (threshold {lineMs} ms)."
    ),
    Code.CLIENT_THROTTLED: (
        "The kernel throttled the client in {throttledPeriods} scheduling periods "
        "within {wallSeconds} s."
    ),
    Code.SHARDS_OUT_OF_STEP: (
        "{processes} client processes started up to {apartMs} ms apart, clock "
        "error included (threshold {suspectMs} ms)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.CLIENT_SATURATED: needs(
        Input.CLIENT,
        Input.LOAD,
        Input.TIMES,
        Input.CLIENT_QUEUE,
        Input.OUTPUT_TOKENS,
        also=(Input.SERVER_COUNTERS, Input.PATH),
    ),
    Code.PATH_SLOW: needs(Input.PATH, Input.CLIENT, Input.TIMES),
    **dict.fromkeys(
        _CODES,
        needs(
            Input.TIMES,
            Input.CLIENT_QUEUE,
            Input.OUTPUT_TOKENS,
            Input.SERVER_COUNTERS,
            Input.CLIENT,
            Input.PATH,
        ),
    ),
    Code.CLIENT_THROTTLED: needs(Input.CLIENT),
    Code.SHARDS_OUT_OF_STEP: needs(Input.SHARDS),
}
