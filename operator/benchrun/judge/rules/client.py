"""A client that has more to do than it can, or whose processes did not begin together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Rules,
    StageFinding,
    StageProfile,
    graded,
    in_words,
)
from benchrun.measure import counters, milliseconds, percentiles, rounded

COUNTS_AGREE_PERCENT = 1.0
"""Servers and client must report the same requests, or the difference of their means shows nothing of the client."""

_SENTENCES: Mapping[str, str] = {
    "ttftGapMs": "TTFT at the client is {ttftGapMs} ms longer than at the server (threshold {line} ms)",
    "sendLagP99Ms": "Requests were sent {sendLagP99Ms} ms late at p99 (threshold {line} ms)",
    "eventLoopLagP99Ms": "The client's event loop was {eventLoopLagP99Ms} ms late at p99 (threshold {line} ms)",
    "coresAProcess": "Each client process used {coresAProcess} cores (threshold {line})",
}
"""By the worst sign of an overloaded client."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """One figure of overload, and the threshold that it should not cross."""

    name: str
    value: float
    threshold: float
    invalid_factor: float = math.inf  # Times the threshold above which the stage is Invalid.

    @property
    def load(self) -> float:
        """1 is the threshold."""
        return self.value / self.threshold


def client_saturated(stage: StageProfile) -> Found:
    """TTFT beyond the server's own, late sends, a late event loop, or most of a core a process."""
    at_server, client = _server_ttft_ms(stage), stage.record.client
    signs = _signs(stage, at_server)
    crossed = [sign for sign in signs if sign.load > 1]
    if not crossed:
        known = {"TTFT at the servers": at_server, "event-loop lag": client.lag_p99_us}
        missing = [name for name, value in known.items() if value is None]
        return [NotChecked(Code.CLIENT_SATURATED, f"unknown: {', '.join(missing)}")] if missing else []
    worst = max(crossed, key=lambda sign: (sign.load > sign.invalid_factor, sign.load))
    evidence: Evidence = {sign.name: rounded(sign.value) for sign in signs} | {
        "eventLoopLagMaxMs": rounded(milliseconds(client.lag_max_us)),
        "proxyLookups": "true" if stage.record.engine.trust_env else "false",
        "serverTtftMs": rounded(at_server),
        "crossed": ", ".join(sign.name for sign in crossed),
        "worst": worst.name,
        "line": rounded(worst.threshold),
        "lineForInvalid": rounded(worst.invalid_factor * worst.threshold) if worst.invalid_factor < math.inf else None,
    }
    severity = graded(worst.load, worst.invalid_factor)
    return [StageFinding(Code.CLIENT_SATURATED, severity, stage.id, evidence, weight=worst.load)]


def _saturated_sentence(evidence: Evidence) -> str:
    worst = _SENTENCES.get(str(evidence.get("worst")), "These thresholds were crossed: {crossed}")
    return in_words(f"{worst}: the client was short of CPU.", evidence)


def client_throttled(stage: StageProfile) -> Found:
    """Any period in which the kernel held the client back."""
    periods = stage.record.client.throttled_periods
    if periods is None:
        return [NotChecked(Code.CLIENT_THROTTLED, "the client's cgroup could not be read")]
    if periods == 0:
        return []
    evidence = {"throttledPeriods": periods, "wallSeconds": rounded(stage.record.client.wall_seconds)}
    return [StageFinding(Code.CLIENT_THROTTLED, "Suspect", stage.id, evidence, weight=periods)]


def _signs(stage: StageProfile, at_server: float | None) -> list[_Sign]:
    thresholds, client, signs = stage.thresholds, stage.record.client, []
    factor, max_lag_ms = thresholds.client_invalid_factor, thresholds.client_lag_suspect_ms
    if at_server is not None and stage.mean_ttft_ms is not None:
        max_gap_ms = max(thresholds.client_gap_suspect_ms, thresholds.client_gap_suspect_percent / 100 * at_server)
        signs.append(_Sign("ttftGapMs", stage.mean_ttft_ms - at_server, max_gap_ms, factor))
    if stage.expected.has_due_instants:
        late_ms = milliseconds(percentiles.Distribution.of(stage.requests.queue_us).percentile(99)) or 0.0
        signs.append(_Sign("sendLagP99Ms", late_ms, max_lag_ms, factor))
    if client.lag_p99_us is not None:
        signs.append(_Sign("eventLoopLagP99Ms", client.lag_p99_us / 1000, max_lag_ms, factor))
    if client.wall_seconds > 0:
        cores = client.cpu_seconds / client.wall_seconds / client.processes
        signs.append(_Sign("coresAProcess", cores, thresholds.client_cores_suspect))
    return signs


def _server_ttft_ms(stage: StageProfile) -> float | None:
    """The servers' own mean, where it is of the requests that the client saw answered.

    Of a disaggregated server it is the proxy's, which includes the transfer between the roles: that is not the client's.
    """
    answered = sum(stage.requests.ok)
    if counters.proxy_edges(stage.record):
        total, count = counters.proxy_ttft(stage.record)
    else:
        total, count = counters.rise(stage.edges, counters.TTFT_SUM), counters.rise(stage.edges, counters.TTFT_COUNT)
    if total is None or not count or abs(count - answered) > COUNTS_AGREE_PERCENT / 100 * answered:
        return None
    return 1000 * total / count


def shards_out_of_step(stage: StageProfile) -> Found:
    """How far apart they may have begun: by the gate's clock, and by how much they may have been wrong about it."""
    shards, threshold = stage.record.shards, stage.thresholds.skew_suspect_ms
    if shards is None:
        return []
    apart = (shards.start_skew_us + shards.clock_error_us) / 1000
    if apart <= threshold:
        return []
    evidence = {
        "apartMs": rounded(apart),
        "clockErrorMs": rounded(shards.clock_error_us / 1000),
        "processes": shards.count,
        "suspectMs": threshold,
    }
    return [StageFinding(Code.SHARDS_OUT_OF_STEP, "Suspect", stage.id, evidence, weight=apart)]


RULES = Rules(
    of_stages={220: client_saturated, 230: client_throttled, 240: shards_out_of_step},
    sentences={
        (180, Code.CLIENT_SATURATED): _saturated_sentence,
        (190, Code.CLIENT_THROTTLED): "The kernel throttled the client in {throttledPeriods} scheduling periods "
        "within {wallSeconds} s.",
        (200, Code.SHARDS_OUT_OF_STEP): "{processes} client processes started up to {apartMs} ms apart, clock error "
        "included (threshold {suspectMs} ms).",
    },
)
