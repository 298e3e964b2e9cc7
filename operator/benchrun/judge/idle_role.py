"""Disaggregated prefill: one role waits for work while requests queue at the other."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Evidence, Explanation, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.pod_windows import is_busy
from benchrun.measure.windows import Window

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.ROLE_IDLE: Explanation(
        meaning="Servers of one role had nothing to do for much of the time, while requests queued at those of the other: the "
        "GPUs are split in another proportion than the work is.",
        remedy="Move a server, or GPUs, from the idle role to the one that queues (replicas of prefill and decode).",
    ),
}


def role_idle(record: StageRecord, context: StageContext) -> Found:
    """The idlest role beside the one with the most queued readings."""
    shares = {
        window.role: (_share(window, busy=False), _share(window, busy=True))
        for window in context.windows
        if window.samples
    }
    if len(shares) < 2:
        return []
    line = context.thresholds.idle_readings_percent
    queued = max(shares, key=lambda role: shares[role][1])
    idle = max((role for role in shares if role != queued), key=lambda role: shares[role][0])
    idle_percent, queued_percent = shares[idle][0], shares[queued][1]
    if min(idle_percent, queued_percent) <= line:
        return []
    evidence: Evidence = {
        "idleRole": idle,
        "idlePercent": rounded(idle_percent),
        "queueRole": queued,
        "queuedPercent": rounded(queued_percent),
        "notePercent": line,
    }
    return [StageFinding(Code.ROLE_IDLE, "Note", record.stage_id, evidence, weight=idle_percent)]


def _share(window: Window, *, busy: bool) -> float:
    """Readings in percent: with a queue, or with nothing at all."""
    found = sum((sample.waiting or 0) > 0 if busy else not is_busy(sample) for sample in window.samples)
    return 100 * found / len(window.samples)
