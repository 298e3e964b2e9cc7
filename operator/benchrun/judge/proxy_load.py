"""Disaggregated prefill: is the proxy itself a part of what was measured?"""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.proxy import proxy_figures

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.PROXY_SATURATED: Explanation(
        meaning="The proxy between client and servers took a part of the time that counts: latencies and throughput are its own "
        "as well as the servers'.",
        remedy="Give the proxy a whole core (server.disaggregated.proxy.resources) and room for all requests under way "
        "(--max-in-flight), or measure fewer streams at once.",
    ),
}


def proxy_saturated(record: StageRecord, context: StageContext) -> Found:
    """What it added to the time to first token, how long it held requests back, and how busy it was."""
    found = proxy_figures([record])
    if found is None:
        return []
    if found.added_mean_ms is None or found.cores is None:
        return [NotChecked(Code.PROXY_SATURATED, "the proxy does not tell what it adds")]
    lines, ttft_ms = context.thresholds, _mean_ttft_ms(record, context)
    line_ms = max(lines.proxy_added_suspect_ms, lines.proxy_added_suspect_percent / 100 * (ttft_ms or 0.0))
    late_ms = max(found.added_mean_ms, found.queued_mean_ms or 0.0)
    weight = max(late_ms / line_ms, found.cores / lines.proxy_cores_suspect)
    if weight <= 1:
        return []
    evidence: Evidence = {
        "addedMeanMs": rounded(found.added_mean_ms),
        "queuedMeanMs": rounded(found.queued_mean_ms),
        "suspectMs": rounded(line_ms),
        "cores": rounded(found.cores),
        "suspectCores": lines.proxy_cores_suspect,
        "meanTtftMs": rounded(ttft_ms),
    }
    return [StageFinding(Code.PROXY_SATURATED, "Suspect", record.stage_id, evidence, weight=weight)]


def _mean_ttft_ms(record: StageRecord, context: StageContext) -> float | None:
    values = context.shape(record).ttft_us
    return sum(values) / len(values) / 1000 if values else None
