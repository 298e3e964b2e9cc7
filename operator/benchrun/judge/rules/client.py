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
    times,
)
from benchrun.measure import milliseconds, percentiles, ratio, rounded

GAP = "ttftGapMs"
"""Name of TTFT at the client beyond the servers' own, in evidence."""
SHOWN_STOLEN_PERCENT = 5.0
"""Less is what any virtual machine loses; the evidence has it anyway."""

_SENTENCES: Mapping[str, str] = {
    GAP: "TTFT at the client is {ttftGapMs} ms longer than at the server (threshold {line} ms)",
    "sendLagP99Ms": "Requests were sent {sendLagP99Ms} ms late at p99 (threshold {line} ms)",
    "eventLoopLagP99Ms": "The client's event loop was {eventLoopLagP99Ms} ms late at p99 (threshold {line} ms)",
    "coresAProcess": "Each client process used {coresAProcess} cores (threshold {line})",
}
"""By the worst sign of an overloaded client."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One figure of an overloaded client, and the threshold that it should not cross."""

    name: str
    value: float
    threshold: float
    invalid_factor: float = math.inf  # Times the threshold above which the stage is Invalid.

    @property
    def load(self) -> float:
        """1 is the threshold."""
        return times(self.value, self.threshold)


def client_saturated(stage: StageProfile) -> Found:
    """Late sends, a late event loop or a full core; and TTFT beyond the server's own, where these account for it."""
    client, crossed = stage.record.client, crossed_signs(stage)
    if not crossed:
        unknown = client.lag_p99_us is None
        return [NotChecked(Code.CLIENT_SATURATED, "unknown: event-loop lag")] if unknown else []
    worst = max(crossed, key=lambda sign: (sign.load > sign.invalid_factor, sign.load))
    evidence: Evidence = {sign.name: rounded(sign.value) for sign in _signs(stage)} | {
        "eventLoopLagMaxMs": rounded(milliseconds(client.lag_max_us)),
        "proxyLookups": "true" if stage.record.engine.trust_env else "false",
        "serverTtftMs": rounded(stage.server_ttft_ms),
        "stolenPercent": rounded(stolen_percent(stage)),
        "crossed": ", ".join(sign.name for sign in crossed),
        "worst": worst.name,
        "line": rounded(worst.threshold),
        "lineForInvalid": rounded(worst.invalid_factor * worst.threshold) if worst.invalid_factor < math.inf else None,
    }
    severity = graded(worst.load, worst.invalid_factor)
    return [StageFinding(Code.CLIENT_SATURATED, severity, stage.id, evidence, weight=worst.load)]


def _saturated_sentence(evidence: Evidence) -> str:
    worst = _SENTENCES.get(str(evidence.get("worst")), "These thresholds were crossed: {crossed}")
    stolen = evidence.get("stolenPercent")
    is_shown = isinstance(stolen, int | float) and stolen >= SHOWN_STOLEN_PERCENT
    also = ", and the hypervisor took {stolenPercent} % of the CPU of its node" if is_shown else ""
    return in_words(f"{worst}: the client was short of CPU{also}.", evidence)


def client_throttled(stage: StageProfile) -> Found:
    """Any period in which the kernel held the client back."""
    periods = stage.record.client.throttled_periods
    if periods is None:
        return [NotChecked(Code.CLIENT_THROTTLED, "the client's cgroup could not be read")]
    if periods == 0:
        return []
    evidence = {"throttledPeriods": periods, "wallSeconds": rounded(stage.record.client.wall_seconds)}
    return [StageFinding(Code.CLIENT_THROTTLED, "Suspect", stage.id, evidence, weight=periods)]


def crossed_signs(stage: StageProfile) -> list[Sign]:
    """The signs of overload beyond their thresholds."""
    return [sign for sign in _signs(stage) if sign.load > 1 and (sign.name != GAP or _made_gap(stage))]


def is_gap_of_client(stage: StageProfile) -> bool:
    """Whether TTFT is longer at the client than at the server, and the client itself accounts for it."""
    return any(sign.name == GAP for sign in crossed_signs(stage))


def _made_gap(stage: StageProfile) -> bool:
    """A full core may make any gap; else it is as many turns of the event loop as a TTFT passes, each as late as at p99."""
    thresholds, lag_ms = stage.thresholds, milliseconds(stage.record.client.lag_p99_us) or 0.0
    cores, gap_ms = _cores(stage) or 0.0, unexplained_gap_ms(stage) or 0.0
    if cores > thresholds.client_cores_suspect:
        return True
    is_busy = cores > thresholds.client_cores_with_gap or lag_ms > _lag_threshold_ms(stage)
    return is_busy and gap_ms <= thresholds.client_turns * lag_ms


def _signs(stage: StageProfile) -> list[Sign]:
    thresholds, client, signs = stage.thresholds, stage.record.client, []
    factor, max_lag_ms = thresholds.client_invalid_factor, _lag_threshold_ms(stage)
    gap_ms, cores = unexplained_gap_ms(stage), _cores(stage)
    if gap_ms is not None:
        signs.append(Sign(GAP, gap_ms, gap_threshold_ms(stage), factor))
    if stage.expected.has_due_instants:
        late_ms = milliseconds(percentiles.Distribution.of(stage.requests.queue_us).percentile(99)) or 0.0
        signs.append(Sign("sendLagP99Ms", late_ms, max_lag_ms, factor))
    if client.lag_p99_us is not None:
        signs.append(Sign("eventLoopLagP99Ms", client.lag_p99_us / 1000, max_lag_ms, factor))
    if cores is not None:
        signs.append(Sign("coresAProcess", cores, thresholds.client_cores_suspect))
    return signs


def _cores(stage: StageProfile) -> float | None:
    """That each process of the client used."""
    client = stage.record.client
    return ratio(client.cpu_seconds / client.processes, client.wall_seconds)


def _lag_threshold_ms(stage: StageProfile) -> float:
    """In proportion to the shortest time that a late client bends."""
    bent = [ms for ms in (stage.server_ttft_ms, stage.mean_ttft_ms, stage.mean_decode_ms) if ms is not None]
    share = stage.thresholds.client_lag_suspect_percent / 100 * min(bent, default=0.0)
    return max(stage.thresholds.client_lag_suspect_ms, share)


def gap_threshold_ms(stage: StageProfile) -> float:
    """From which time on something is much beside the servers' TTFT (where that is unknown, the client's)."""
    ttft_ms = stage.server_ttft_ms if stage.server_ttft_ms is not None else stage.mean_ttft_ms or 0.0
    return max(stage.thresholds.ttft_gap_suspect_ms, stage.thresholds.ttft_gap_suspect_percent / 100 * ttft_ms)


def round_trip_ms(stage: StageProfile) -> float | None:
    """The median of the probe before the first stage; None: the record has none."""
    trips = stage.record.round_trips
    return None if trips is None else trips.median_us / 1000


def unexplained_gap_ms(stage: StageProfile) -> float | None:
    """TTFT at the client beyond the servers' own, without as many round trips as it may hold; None where it is unknown."""
    gap_ms = stage.ttft_gap_ms
    return None if gap_ms is None else gap_ms - stage.thresholds.path_round_trips * (round_trip_ms(stage) or 0.0)


def stolen_percent(stage: StageProfile) -> float | None:
    """What the hypervisor gave to others of the CPU time that the client's node used or wanted; None: unknown."""
    client = stage.record.client
    return None if client.stolen_seconds is None else ratio(client.stolen_seconds, client.node_cpu_seconds, 100)


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
