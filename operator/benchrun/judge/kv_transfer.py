"""Disaggregated prefill: did the KV cache of the prompts come from where it was computed?"""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.api.names import ROLE_DECODE
from benchrun.api.status import Severity
from benchrun.judge.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import EXTERNAL_HITS, FAILED_TRANSFERS, PREFIX_HITS, PROMPT_TOKENS, by_role, rise

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.KV_RECOMPUTED: Explanation(
        meaning="The servers that decode computed the prompts themselves, after others had computed them already: each prompt "
        "cost twice, and the figures are not those of a disaggregated server.",
        remedy="See that both roles reach each other by the connector: its address, port and shared storage, equal block sizes "
        "and model arguments, and the log of a decode server. Prompts shorter than a block are never transferred.",
    ),
}


def kv_recomputed(record: StageRecord, context: StageContext) -> Found:
    """Prompt tokens that decode servers neither fetched nor had in their own prefix cache."""
    servers = by_role(record.servers).get(ROLE_DECODE, ())
    if not servers:
        return []
    prompts, fetched = rise(servers, PROMPT_TOKENS), rise(servers, EXTERNAL_HITS)
    if prompts is None or fetched is None:
        return [NotChecked(Code.KV_RECOMPUTED, "a decode server's fetched tokens were not read at both ends")]
    if prompts <= 0:
        return []
    cached = rise(servers, PREFIX_HITS) or 0.0
    computed = max(prompts - fetched - cached, 0.0)
    percent, lines = 100 * computed / prompts, context.thresholds
    if percent <= lines.recomputed_suspect_percent:
        return []
    severity: Severity = "Invalid" if percent > lines.recomputed_invalid_percent else "Suspect"
    failed = [value for name in FAILED_TRANSFERS if (value := rise(record.servers, name)) is not None]
    evidence: Evidence = {
        "promptTokens": prompts,
        "fetchedTokens": fetched,
        "cachedTokens": cached,
        "recomputedPercent": rounded(percent),
        "failedTransfers": sum(failed) if failed else None,
        "suspectPercent": lines.recomputed_suspect_percent,
        "invalidPercent": lines.recomputed_invalid_percent,
    }
    return [StageFinding(Code.KV_RECOMPUTED, severity, record.stage_id, evidence, weight=percent)]
