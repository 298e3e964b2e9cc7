"""TTFT at the client that is longer than at the server, and not by the client: a slow path, a busy API server, or neither."""

from __future__ import annotations

from benchrun.judge.rules.client import (
    gap_threshold_ms,
    is_gap_of_client,
    round_trip_ms,
    stolen_percent,
    unexplained_gap_ms,
)
from benchrun.judge.rules.rule import Code, Evidence, Found, NotChecked, Rules, StageFinding, StageProfile, times
from benchrun.measure import counters, milliseconds, rounded

_CODES = [Code.FRONTEND_SATURATED, Code.CLIENT_SERVER_GAP]


def path_slow(stage: StageProfile) -> Found:
    """A round trip that is much beside TTFT, by the serial probe before the first stage."""
    trips, trip_ms, ttft_ms = stage.record.round_trips, round_trip_ms(stage), stage.mean_ttft_ms
    if stage.expected.offline or ttft_ms is None:
        return []
    if trips is None or trip_ms is None:
        return [NotChecked(Code.PATH_SLOW, "round trips were not measured")]
    threshold = gap_threshold_ms(stage)
    if trip_ms <= threshold:
        return []
    evidence: Evidence = {
        "roundTripMs": rounded(trip_ms),
        "roundTripP95Ms": rounded(milliseconds(trips.p95_us)),
        "roundTrips": trips.count,
        "lineMs": rounded(threshold),
        "meanTtftMs": rounded(ttft_ms),
        "serverTtftMs": rounded(stage.server_ttft_ms),
    }
    return [StageFinding(Code.PATH_SLOW, "Suspect", stage.id, evidence, weight=times(trip_ms, threshold))]


def gap_beyond_client(stage: StageProfile) -> Found:
    """TTFT that is longer at the client than at the server, by more than the path and the client account for: the API server's
    where that is busy for most of a core, else nobody's that was looked at.

    A server counts TTFT from where its API server has read the request: what waits before that is in the client's TTFT only.
    """
    if stage.expected.offline or not stage.answered:
        return []
    # Behind the proxy of a disaggregated server the API servers answer the proxy, whose own rule looks at it.
    codes = [Code.CLIENT_SERVER_GAP] if counters.proxy_edges(stage.record) else _CODES
    gap_ms, threshold, cores = unexplained_gap_ms(stage), gap_threshold_ms(stage), _api_server_cores(stage)
    if gap_ms is None:
        return [NotChecked(code, "unknown: TTFT at the servers") for code in codes]
    if gap_ms <= threshold or is_gap_of_client(stage):
        return []
    evidence = {
        "ttftGapMs": rounded(stage.ttft_gap_ms),
        "unexplainedMs": rounded(gap_ms),
        "lineMs": rounded(threshold),
        "serverTtftMs": rounded(stage.server_ttft_ms),
        "apiServerCores": rounded(cores),
        "suspectCores": stage.thresholds.frontend_cores_suspect,
        "roundTripMs": rounded(round_trip_ms(stage)),
        "eventLoopLagP99Ms": rounded(milliseconds(stage.record.client.lag_p99_us)),
        "stolenPercent": rounded(stolen_percent(stage)),
    }
    if cores is not None and cores > stage.thresholds.frontend_cores_suspect and codes is _CODES:
        return [StageFinding(Code.FRONTEND_SATURATED, "Suspect", stage.id, evidence, weight=cores)]
    unknown = [NotChecked(Code.FRONTEND_SATURATED, "unknown: CPU seconds of the API server")] if cores is None else []
    return [StageFinding(Code.CLIENT_SERVER_GAP, "Suspect", stage.id, evidence, weight=gap_ms), *unknown]


def _api_server_cores(stage: StageProfile) -> float | None:
    """Of the busiest server; None where no page has it: with several API servers a vLLM leaves it out."""
    used = [counters.rise_at(edge, counters.CPU) for edge in stage.edges if not counters.is_reset(edge)]
    known = [seconds for seconds in used if seconds is not None]
    return max(known) / stage.seconds if known and stage.seconds > 0 else None


RULES = Rules(
    of_stages={222: path_slow, 224: gap_beyond_client},
    sentences={
        (
            182,
            Code.PATH_SLOW,
        ): "A round trip to the server takes {roundTripMs} ms (threshold {lineMs} ms), within a mean TTFT of "
        "{meanTtftMs} ms.",
        (
            184,
            Code.FRONTEND_SATURATED,
        ): "vLLM's API server used {apiServerCores} cores (threshold {suspectCores}), and TTFT at the "
        "client is {ttftGapMs} ms longer than the server counts (threshold {lineMs} ms).",
        (
            186,
            Code.CLIENT_SERVER_GAP,
        ): "TTFT at the client is {ttftGapMs} ms longer than at the server (threshold {lineMs} ms), "
        "and the client's clocks and CPU do not explain it.",
    },
)
