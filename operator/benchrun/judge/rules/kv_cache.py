"""The KV cache: prompts it should not have known, requests it had no room for, and its transfer from prefill to decode."""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.api import Severity
from benchrun.judge.rules.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules.rule import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    FAILED_TRANSFERS,
    PREEMPTIONS,
    PREFIX_HITS,
    PREFIX_QUERIES,
    PROMPT_TOKENS,
    by_role,
    of_vllm,
    prefilling,
    rise,
    rise_at,
)
from benchrun.names import ROLE_DECODE

# ---- prefix cache -----------------------------------------------------------------------------------------------------
# Prompts that should be new to the server and were not.
#
# The plan isolates every prompt, or has the caches emptied before each stage: either way each hit beyond what the dataset
# declares is somebody else's, or an earlier stage's, doing. Prompts that are shared by policy are judged by the same lines,
# since what the cache serves is not computed, whoever wanted it so.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.PREFIX_CACHE_CONTAMINATED: Explanation(
        meaning="Prompts were found in the prefix cache that the workload does not repeat: somebody else sent them, or sent "
        "them before. TTFT is too low and throughput too high, by an amount that can't be computed.",
        remedy="The cachePolicy Share does this by itself: take Isolate, or Reset. Else measure a server that nobody else uses, "
        "change measurement.seed if it has seen this traffic, or start it with --no-enable-prefix-caching.",
    ),
    Code.CACHE_RESET_FAILED: Explanation(
        meaning="The prefix cache was to be emptied before the stage and was not: prompts of earlier stages may be found in "
        "it, which makes TTFT too low.",
        remedy="Read the server's answer in the evidence. Blocks that a request still holds can't be freed: keep other "
        "clients away. Or take cachePolicy Isolate, which needs no reset.",
    ),
    Code.PREEMPTED: Explanation(
        meaning="The KV cache was full: running requests lost their blocks, waited and were computed anew. Some answers "
        "have long pauses, and part of the server's work was done twice.",
        remedy="Lower the concurrency or max-num-seqs, shorten the requests, or give the KV cache more memory "
        "(gpu-memory-utilization, kv-cache-memory-bytes). Leave it if that limit is what you measure.",
    ),
    Code.KV_RECOMPUTED: Explanation(
        meaning="The servers that decode computed the prompts themselves, after others had computed them already: each prompt "
        "cost twice, and the figures are not those of a disaggregated server.",
        remedy="See that both roles reach each other by the connector: its address, port and shared storage, equal block sizes "
        "and model arguments, and the log of a decode server. Prompts shorter than a block are never transferred.",
    ),
}


def prefix_cache(record: StageRecord, context: StageContext) -> Found:
    """Hits among the tokens looked up, by the servers' own counters. No look-ups: the cache is off, or nothing arrived."""
    hits, queries = (rise(prefilling(record.servers), counter) for counter in (PREFIX_HITS, PREFIX_QUERIES))
    if hits is None or queries is None:
        return [
            NotChecked(Code.PREFIX_CACHE_CONTAMINATED, "a server's prefix-cache counters were not read at both ends")
        ]
    external_hits = _of_second_tier(record, EXTERNAL_HITS)
    # What the first tier misses is looked up in the second; without a first tier that is everything.
    looked_up = max(queries, _of_second_tier(record, EXTERNAL_QUERIES))
    if looked_up <= 0:
        return []
    percent = 100 * (hits + external_hits) / looked_up
    lines = context.thresholds
    allowed_for = record.shared_prefix_tokens * len(record.requests.ok) + record.repeated_tokens
    declared = min(percent, 100 * allowed_for / looked_up)
    beyond = percent - declared
    if beyond <= lines.prefix_hits_suspect_percent:
        return []
    severity: Severity = "Invalid" if beyond > lines.prefix_hits_invalid_percent else "Suspect"
    evidence: Evidence = {
        "hitTokens": hits,
        "externalHitTokens": external_hits,
        "lookedUpTokens": looked_up,
        "hitPercent": rounded(percent),
        "declaredPercent": rounded(declared),
        "beyondPercent": rounded(beyond),
        "suspectPercent": lines.prefix_hits_suspect_percent,
        "invalidPercent": lines.prefix_hits_invalid_percent,
        "cachePolicy": context.asked.cache_policy,
    }
    return [StageFinding(Code.PREFIX_CACHE_CONTAMINATED, severity, record.stage_id, evidence, weight=beyond)]


def cache_reset(record: StageRecord, context: StageContext) -> Found:
    """Whether the reset that the policy asks for took place, by the words of every server."""
    if context.asked.cache_policy != "Reset":
        return []
    reset = record.cache_reset
    if reset is None:
        return [NotChecked(Code.CACHE_RESET_FAILED, "the client tells nothing of the reset")]
    if reset.succeeded:
        return []
    evidence: Evidence = {"attempts": reset.attempts, "answer": reset.answer}
    return [StageFinding(Code.CACHE_RESET_FAILED, "Suspect", record.stage_id, evidence, weight=reset.attempts)]


def _of_second_tier(record: StageRecord, counter: str) -> float:
    """Tokens of a cache behind the server's own (host memory, disk, another node); without the series there is none."""
    return math.fsum(rise_at(edge, counter) or 0.0 for edge in prefilling(record.servers))


# ---- preempted --------------------------------------------------------------------------------------------------------
# Requests that the scheduler put back into the queue because the KV cache was full.


def preempted(record: StageRecord, context: StageContext) -> Found:
    """Any preemption is worth knowing; more than a few shape the tail."""
    preemptions, requests = rise(of_vllm(record.servers), PREEMPTIONS), len(record.requests.ok)
    if preemptions is None:
        return [NotChecked(Code.PREEMPTED, "a server's preemptions were not read at both ends")]
    if preemptions == 0:
        return []
    percent, line = 100 * preemptions / requests, context.thresholds.preempted_suspect_percent
    severity: Severity = "Suspect" if percent > line else "Note"
    evidence = {
        "preemptions": preemptions,
        "requests": requests,
        "percent": rounded(percent),
        "suspectPercent": line,
    }
    return [StageFinding(Code.PREEMPTED, severity, record.stage_id, evidence, weight=percent)]


# ---- kv transfer ------------------------------------------------------------------------------------------------------
# Disaggregated prefill: did the KV cache of the prompts come from where it was computed?


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
