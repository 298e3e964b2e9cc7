"""A warm-up that did not do all it was to: the first stage then met a colder server than the spec asks for."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Evidence, Explanation, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.WARMUP_INCOMPLETE: Explanation(
        meaning="The workload's warm-up was cut short, or its requests failed: the first stage may have met shapes that the "
        "server had not compiled, and connections not yet open.",
        remedy="Raise measurement.warmup.auto.maxSeconds, or shorten the requests. Where requests failed, the server's log "
        "says why.",
    ),
}


def warmup_incomplete(record: StageRecord, context: StageContext) -> Found:
    """Fewer answers than requests. Told with the first stage of a workload: the others follow on that one, whatever the
    warm-up was."""
    warmup = record.warmup
    if warmup is None or warmup.answered >= warmup.requests:
        return []
    missing = warmup.requests - warmup.answered
    evidence: Evidence = {
        "requests": warmup.requests,
        "answered": warmup.answered,
        "failed": warmup.failed,
        "cutShort": missing - warmup.failed,
        "seconds": rounded(warmup.took_us / 1e6),
    }
    weight = missing / warmup.requests
    return [StageFinding(Code.WARMUP_INCOMPLETE, "Note", record.stage_id, evidence, weight=weight)]
