"""The KV cache: prompts it should not have known, requests it had no room for, and its transfer from prefill to decode."""

from __future__ import annotations

import math

from benchrun.api import FAILED_TRANSFERS, Severity
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Explanation,
    Found,
    NotChecked,
    Rules,
    StageFinding,
    StageProfile,
    graded,
)
from benchrun.measure.cells import rounded
from benchrun.measure.counters import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
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

# The plan isolates every prompt, or has the caches emptied before each stage: either way each hit beyond what the dataset
# declares is somebody else's, or an earlier stage's, doing. Prompts that are shared by policy are judged by the same thresholds,
# since what the cache serves is not computed, whoever wanted it so.


def prefix_cache(stage: StageProfile) -> Found:
    """Hits among the tokens looked up, by the servers' own counters. No look-ups: the cache is off, or nothing arrived."""
    hits, queries = (rise(prefilling(stage.edges), counter) for counter in (PREFIX_HITS, PREFIX_QUERIES))
    if hits is None or queries is None:
        return [
            NotChecked(Code.PREFIX_CACHE_CONTAMINATED, "a server's prefix-cache counters were not read at both ends")
        ]
    external_hits = _of_second_tier(stage, EXTERNAL_HITS)
    # What the first tier misses is looked up in the second; without a first tier that is everything.
    looked_up = max(queries, _of_second_tier(stage, EXTERNAL_QUERIES))
    if looked_up <= 0:
        return []
    percent = 100 * (hits + external_hits) / looked_up
    thresholds = stage.thresholds
    allowed_for = stage.record.shared_prefix_tokens * len(stage.requests.ok) + stage.record.repeated_tokens
    declared = min(percent, 100 * allowed_for / looked_up)
    beyond = percent - declared
    if beyond <= thresholds.prefix_hits_suspect_percent:
        return []
    severity = graded(beyond, thresholds.prefix_hits_invalid_percent)
    evidence: Evidence = {
        "hitTokens": hits,
        "externalHitTokens": external_hits,
        "lookedUpTokens": looked_up,
        "hitPercent": rounded(percent),
        "declaredPercent": rounded(declared),
        "beyondPercent": rounded(beyond),
        "suspectPercent": thresholds.prefix_hits_suspect_percent,
        "invalidPercent": thresholds.prefix_hits_invalid_percent,
        "cachePolicy": stage.expected.cache_policy,
    }
    return [StageFinding(Code.PREFIX_CACHE_CONTAMINATED, severity, stage.id, evidence, weight=beyond)]


def cache_reset(stage: StageProfile) -> Found:
    """Whether the reset that the policy asks for took place, by the words of every server."""
    if stage.expected.cache_policy != "Reset":
        return []
    reset = stage.record.cache_reset
    if reset is None:
        return [NotChecked(Code.CACHE_RESET_FAILED, "the client tells nothing of the reset")]
    if reset.succeeded:
        return []
    evidence: Evidence = {"attempts": reset.attempts, "answer": reset.answer}
    return [StageFinding(Code.CACHE_RESET_FAILED, "Suspect", stage.id, evidence, weight=reset.attempts)]


def _of_second_tier(stage: StageProfile, counter: str) -> float:
    """Tokens of a cache behind the server's own (host memory, disk, another node); without the series there is none."""
    return math.fsum(rise_at(edge, counter) or 0.0 for edge in prefilling(stage.edges))


def preempted(stage: StageProfile) -> Found:
    """Any preemption is worth knowing; more than a few shape the tail."""
    preemptions, requests = rise(of_vllm(stage.edges), PREEMPTIONS), len(stage.requests.ok)
    if preemptions is None:
        return [NotChecked(Code.PREEMPTED, "a server's preemptions were not read at both ends")]
    if preemptions == 0:
        return []
    percent, threshold = 100 * preemptions / requests, stage.thresholds.preempted_suspect_percent
    severity: Severity = "Suspect" if percent > threshold else "Note"
    evidence = {
        "preemptions": preemptions,
        "requests": requests,
        "percent": rounded(percent),
        "suspectPercent": threshold,
    }
    return [StageFinding(Code.PREEMPTED, severity, stage.id, evidence, weight=percent)]


def kv_recomputed(stage: StageProfile) -> Found:
    """Prompt tokens that decode servers neither fetched nor had in their own prefix cache."""
    servers = by_role(stage.edges).get(ROLE_DECODE, ())
    if not servers:
        return []
    prompts, fetched = rise(servers, PROMPT_TOKENS), rise(servers, EXTERNAL_HITS)
    if prompts is None or fetched is None:
        return [NotChecked(Code.KV_RECOMPUTED, "a decode server's fetched tokens were not read at both ends")]
    if prompts <= 0:
        return []
    cached = rise(servers, PREFIX_HITS) or 0.0
    computed = max(prompts - fetched - cached, 0.0)
    percent, thresholds = 100 * computed / prompts, stage.thresholds
    if percent <= thresholds.recomputed_suspect_percent:
        return []
    severity = graded(percent, thresholds.recomputed_invalid_percent)
    failed = [value for name in FAILED_TRANSFERS if (value := rise(stage.edges, name)) is not None]
    evidence: Evidence = {
        "promptTokens": prompts,
        "fetchedTokens": fetched,
        "cachedTokens": cached,
        "recomputedPercent": rounded(percent),
        "failedTransfers": sum(failed) if failed else None,
        "suspectPercent": thresholds.recomputed_suspect_percent,
        "invalidPercent": thresholds.recomputed_invalid_percent,
    }
    return [StageFinding(Code.KV_RECOMPUTED, severity, stage.id, evidence, weight=percent)]


RULES = Rules(
    of_stages={70: prefix_cache, 80: cache_reset, 90: kv_recomputed, 170: preempted},
    explanations={
        Code.PREFIX_CACHE_CONTAMINATED: Explanation(
            meaning="Prompts were found in the prefix cache that the workload does not repeat: somebody else sent them, or sent "
            "them before. TTFT is too low and throughput too high, by an amount that can't be computed.",
            remedy="The cachePolicy Share causes this: use Isolate or Reset. Else measure a server that nobody else uses, "
            "change measurement.seed if it has seen this traffic, or start it with --no-enable-prefix-caching.",
            sentence="{hitPercent} % of the prompt tokens were in the prefix cache, {beyondPercent} % more than the "
            "workload repeats (threshold {suspectPercent} %, Invalid above {invalidPercent} %).",
        ),
        Code.CACHE_RESET_FAILED: Explanation(
            meaning="The prefix cache was to be emptied before the stage and was not: prompts of earlier stages may be found in "
            "it, which makes TTFT too low.",
            remedy="Read the server's answer in the evidence. Blocks that a request still holds can't be freed: keep other "
            "clients away. Or take cachePolicy Isolate, which needs no reset.",
            sentence="The prefix cache was not emptied in {attempts} attempts. Answer: {answer}",
        ),
        Code.PREEMPTED: Explanation(
            meaning="The KV cache was full: running requests lost their blocks, waited and were computed anew. Some answers "
            "have long pauses, and part of the server's work was done twice.",
            remedy="Lower the concurrency or max-num-seqs, shorten the requests, or give the KV cache more memory "
            "(gpu-memory-utilization, kv-cache-memory-bytes). Leave it if that limit is what you measure.",
            sentence="Preemptions: {preemptions} in {requests} requests ({percent} %, Suspect above {suspectPercent} "
            "%).",
        ),
        Code.KV_RECOMPUTED: Explanation(
            meaning="The servers that decode computed the prompts themselves, after others had computed them already: each prompt "
            "cost twice, and the figures are not those of a disaggregated server.",
            remedy="See that both roles reach each other by the connector: its address, port and shared storage, equal block sizes "
            "and model arguments, and the log of a decode server. Prompts shorter than a block are never transferred.",
            sentence="The decode servers computed {recomputedPercent} % of {promptTokens} prompt tokens themselves "
            "(threshold {suspectPercent} %, Invalid above {invalidPercent} %)[; {failedTransfers} transfers "
            "failed].",
        ),
    },
)
