"""A client that has more to do than it can, or whose processes did not begin together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.api import Severity
from benchrun.judge.rules.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules.rule import Found, StageContext
from benchrun.measure.cells import milliseconds, rounded
from benchrun.measure.edges import TTFT_COUNT, TTFT_SUM, proxy_edges, proxy_ttft, rise
from benchrun.measure.percentiles import Distribution

# ---- client load ------------------------------------------------------------------------------------------------------
# A client that has more to do than it can: its own delays are then in every latency.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.CLIENT_SATURATED: Explanation(
        meaning="The client could not keep up: it sent late or read tokens late. TTFT and the tails of all latencies are too "
        "high, and TPOT may be too low.",
        remedy="Give the client more CPU (client.resources) and a node of its own, or lower the load. One process carries "
        "about 150 streams; client.parallelism has several send the load together.",
    ),
    Code.CLIENT_THROTTLED: Explanation(
        meaning="The kernel stopped the client for having used up its CPU limit. For as long it neither sent nor read: "
        "latencies near those instants are too high.",
        remedy="Raise the CPU limit in client.resources, or set none and only a request.",
    ),
    Code.SHARDS_OUT_OF_STEP: Explanation(
        meaning="The processes that send the load together did not begin the stage at one instant. Their requests are shifted "
        "against each other by as much, and the first seconds had less load than asked for.",
        remedy="Give each process of the client a core (client.resources), and its pods nodes that nobody else keeps busy.",
    ),
}


COUNTS_AGREE_PERCENT = 1.0
"""Servers and client must tell of the same requests, or the difference of their means says nothing of the client."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """One figure of overload, and the line that it should not cross."""

    name: str
    value: float
    line: float
    invalid_factor: float = math.inf
    """How many times the line makes a stage Invalid."""

    @property
    def load(self) -> float:
        """1 is the line."""
        return self.value / self.line

    @property
    def invalid_line(self) -> float | None:
        """None: it makes no stage Invalid."""
        return self.invalid_factor * self.line if math.isfinite(self.invalid_factor) else None

    @property
    def severity(self) -> Severity:
        return "Invalid" if self.load > self.invalid_factor else "Suspect"


def client_saturated(record: StageRecord, context: StageContext) -> Found:
    """TTFT beyond the server's own, late sends, a late event loop, or most of a core a process."""
    at_server = _server_ttft_ms(record)
    signs = _signs(record, context, at_server)
    crossed = [sign for sign in signs if sign.load > 1]
    if not crossed:
        return _missing(record, at_server)
    worst = max(crossed, key=lambda sign: (sign.severity == "Invalid", sign.load))
    evidence: Evidence = {sign.name: rounded(sign.value) for sign in signs} | {
        "eventLoopLagMaxMs": rounded(milliseconds(record.client.lag_max_us)),
        "proxyLookups": "true" if record.engine.trust_env else "false",
        "serverTtftMs": rounded(at_server),
        "crossed": ", ".join(sign.name for sign in crossed),
        "worst": worst.name,
        "line": rounded(worst.line),
        "lineForInvalid": rounded(worst.invalid_line),
    }
    return [StageFinding(Code.CLIENT_SATURATED, worst.severity, record.stage_id, evidence, weight=worst.load)]


def client_throttled(record: StageRecord, context: StageContext) -> Found:
    """Any period in which the kernel held the client back."""
    periods = record.client.throttled_periods
    if periods is None:
        return [NotChecked(Code.CLIENT_THROTTLED, "the client's cgroup could not be read")]
    if periods == 0:
        return []
    evidence = {"throttledPeriods": periods, "wallSeconds": rounded(record.client.wall_seconds)}
    return [StageFinding(Code.CLIENT_THROTTLED, "Suspect", record.stage_id, evidence, weight=periods)]


def _signs(record: StageRecord, context: StageContext, at_server: float | None) -> list[_Sign]:
    lines, client, signs = context.thresholds, record.client, []
    factor = lines.client_invalid_factor
    at_client = _mean_ms(context.shape(record).ttft_us)
    if at_server is not None and at_client is not None:
        line = max(lines.client_gap_suspect_ms, lines.client_gap_suspect_percent / 100 * at_server)
        signs.append(_Sign("ttftGapMs", at_client - at_server, line, factor))
    if context.asked.has_due_instants:
        late = milliseconds(Distribution.of(record.requests.queue_us).percentile(99)) or 0.0
        signs.append(_Sign("sendLagP99Ms", late, lines.client_lag_suspect_ms, factor))
    if client.lag_p99_us is not None:
        signs.append(_Sign("eventLoopLagP99Ms", client.lag_p99_us / 1000, lines.client_lag_suspect_ms, factor))
    if client.wall_seconds > 0:
        cores = client.cpu_seconds / client.wall_seconds / client.processes
        signs.append(_Sign("coresAProcess", cores, lines.client_cores_suspect))
    return signs


def _missing(record: StageRecord, at_server: float | None) -> Found:
    """What was not looked at, where nothing else was found."""
    known = {
        "TTFT at the servers": at_server is not None,
        "event-loop lag": record.client.lag_p99_us is not None,
    }
    missing = [name for name, is_known in known.items() if not is_known]
    return [NotChecked(Code.CLIENT_SATURATED, f"unknown: {', '.join(missing)}")] if missing else []


def _server_ttft_ms(record: StageRecord) -> float | None:
    """The servers' own mean, where it is of the requests that the client saw answered.

    Of a server that is split in two it is the proxy's, which has the ways between the roles in it: they are not the client's.
    """
    answered = sum(record.requests.ok)
    if proxy_edges(record):
        total, count = proxy_ttft(record)
    else:
        total, count = rise(record.servers, TTFT_SUM), rise(record.servers, TTFT_COUNT)
    if total is None or not count or abs(count - answered) > COUNTS_AGREE_PERCENT / 100 * answered:
        return None
    return 1000 * total / count


def _mean_ms(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) / 1000 if values else None


# ---- out of step ------------------------------------------------------------------------------------------------------
# Processes of a client that did not begin a stage together: its load was then another at first.


def shards_out_of_step(record: StageRecord, context: StageContext) -> Found:
    """How far apart they may have begun: by the gate's clock, and by how much they may have been wrong about it."""
    shards, line = record.shards, context.thresholds.skew_suspect_ms
    if shards is None:
        return []
    apart = (shards.start_skew_us + shards.clock_error_us) / 1000
    if apart <= line:
        return []
    evidence = {
        "apartMs": rounded(apart),
        "clockErrorMs": rounded(shards.clock_error_us / 1000),
        "processes": shards.count,
        "suspectMs": line,
    }
    return [StageFinding(Code.SHARDS_OUT_OF_STEP, "Suspect", record.stage_id, evidence, weight=apart)]
