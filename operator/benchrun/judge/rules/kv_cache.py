"""Rules on the KV cache, where it distorts a measurement.

They find unexpected prefix cache hits, failed resets, preemptions, and prompts that decode servers
compute again despite a transfer.
"""

from collections.abc import Mapping
from typing import NamedTuple

from benchrun.api import FAILED_TRANSFERS, Severity
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
    graded,
)
from benchrun.measure import counters, rounded, sum_of_known
from benchrun.names import ROLE_DECODE

# The plan isolates every prompt, or empties the caches before each stage: each hit beyond what the
# dataset declares comes from other clients or an earlier stage. Prompts that are shared by policy
# are judged by the same thresholds: what the cache serves is not computed.


class PrefixHits(NamedTuple):
    """Prompt tokens of a stage that were found in a prefix cache, by the servers' own counters."""

    own: float
    external: float  # Tokens found in a cache behind the server's own.
    looked_up: float  # Tokens queried; 0: the cache is off, or no request arrived.
    percent: float
    beyond_percent: (
        float  # Percent found beyond what the dataset repeats on purpose.
    )


def prefix_hits(stage: StageFacts) -> PrefixHits | None:
    """Return the prefix cache hits of a stage.

    None if a server's counters were not read at both ends.
    """
    lookups = counters.prefix_lookups(counters.prefilling(stage.edges))
    if lookups is None:
        return None
    looked_up, hits, external_hits = lookups
    if looked_up <= 0:
        return PrefixHits(hits, external_hits, 0.0, 0.0, 0.0)
    percent = 100 * (hits + external_hits) / looked_up
    allowed_for = (
        stage.record.shared_prefix_tokens * len(stage.requests.ok)
        + stage.record.repeated_tokens
        + _looked_up_again(stage, looked_up)
    )
    return PrefixHits(
        hits,
        external_hits,
        looked_up,
        percent,
        max(percent - 100 * allowed_for / looked_up, 0.0),
    )


def _looked_up_again(stage: StageFacts, looked_up: float) -> float:
    """Return how many tokens preempted requests looked up again in the prefix cache.

    When a preempted request resumes, it finds in the cache what it computed before, and some
    servers count this look-up. The result is 0 without preemptions.
    """
    edges = counters.of_engine(stage.edges)
    if not counters.rise(edges, counters.PREEMPTIONS):
        return 0.0
    return max(0.0, looked_up - sum(stage.requests.input_tokens))


def prefix_cache(stage: StageFacts) -> Found:
    """Find more prefix cache hits than the dataset causes on purpose.

    Hits are measured as a share of the tokens that were looked up. Without look-ups, nothing is
    found: the cache is off, or no request arrived.
    """
    found = prefix_hits(stage)
    thresholds = stage.thresholds
    if found is None:
        why = "a server's prefix-cache counters were not read before and after the stage"
        return [NotChecked(Code.PREFIX_CACHE_CONTAMINATED, why)]
    beyond = found.beyond_percent
    if beyond <= thresholds.prefix_hits_suspect_percent:
        return []
    severity = graded(beyond, thresholds.prefix_hits_invalid_percent)
    evidence: Evidence = {
        "hitTokens": found.own,
        "externalHitTokens": found.external,
        "lookedUpTokens": found.looked_up,
        "hitPercent": rounded(found.percent),
        "declaredPercent": rounded(found.percent - beyond),
        "beyondPercent": rounded(beyond),
        "suspectPercent": thresholds.prefix_hits_suspect_percent,
        "invalidPercent": thresholds.prefix_hits_invalid_percent,
        "cachePolicy": stage.expected.cache_policy,
    }
    return [
        StageFinding(
            Code.PREFIX_CACHE_CONTAMINATED,
            severity,
            stage.id,
            evidence,
            weight=beyond,
        )
    ]


def cache_reset(stage: StageFacts) -> Found:
    """Find a failed reset of the prefix cache, if the cache policy is Reset.

    A reset succeeds only if every server answers that it did.
    """
    reset = stage.record.cache_reset
    if stage.expected.cache_policy != "Reset" or (
        reset is not None and reset.succeeded
    ):
        return []
    if reset is None:
        return [
            NotChecked(
                Code.CACHE_RESET_FAILED,
                "the client did not record whether the cache was reset",
            )
        ]
    evidence: Evidence = {"attempts": reset.attempts, "answer": reset.answer}
    return [
        StageFinding(
            Code.CACHE_RESET_FAILED,
            "Suspect",
            stage.id,
            evidence,
            weight=reset.attempts,
        )
    ]


def preempted(stage: StageFacts) -> Found:
    """Find preemptions: a few are a Note; more determine the highest latencies and are Suspect."""
    preemptions = counters.rise(
        counters.of_engine(stage.edges), counters.PREEMPTIONS
    )
    requests = len(stage.requests.ok)
    if preemptions is None:
        return [
            NotChecked(
                Code.PREEMPTED,
                "a server's preemptions were not read before and after the stage",
            )
        ]
    if preemptions == 0:
        return []
    percent = 100 * preemptions / requests
    threshold = stage.thresholds.preempted_suspect_percent
    severity: Severity = "Suspect" if percent > threshold else "Note"
    counts = {"preemptions": preemptions, "requests": requests}
    evidence = {**counts, "percent": rounded(percent), "suspectPercent": threshold}
    return [
        StageFinding(Code.PREEMPTED, severity, stage.id, evidence, weight=percent)
    ]


def kv_recomputed(stage: StageFacts) -> Found:
    """Find prompt tokens that decode servers computed themselves.

    The servers neither fetched these tokens nor found them in their own prefix cache.
    """
    servers = counters.by_role(stage.edges).get(ROLE_DECODE, ())
    if not servers:
        return []
    prompts = counters.rise(servers, counters.PROMPT_TOKENS)
    fetched = counters.rise(servers, counters.EXTERNAL_HITS)
    cached = counters.rise(servers, counters.PREFIX_HITS)
    if prompts is None or fetched is None or cached is None:
        why = (
            "a decode server's fetched and cached tokens were not read before "
            "and after the stage"
        )
        return [NotChecked(Code.KV_RECOMPUTED, why)]
    computed = max(prompts - fetched - cached, 0.0)
    percent = 100 * computed / prompts if prompts > 0 else 0.0
    thresholds = stage.thresholds
    if percent <= thresholds.recomputed_suspect_percent:
        return []
    severity = graded(percent, thresholds.recomputed_invalid_percent)
    evidence: Evidence = {
        "promptTokens": prompts,
        "fetchedTokens": fetched,
        "cachedTokens": cached,
        "recomputedPercent": rounded(percent),
        "failedTransfers": sum_of_known(
            counters.rise(stage.edges, name) for name in FAILED_TRANSFERS
        ),
        "suspectPercent": thresholds.recomputed_suspect_percent,
        "invalidPercent": thresholds.recomputed_invalid_percent,
    }
    return [
        StageFinding(
            Code.KV_RECOMPUTED, severity, stage.id, evidence, weight=percent
        )
    ]


STAGE_RULES: tuple[StageRule, ...] = (
    prefix_cache,
    cache_reset,
    kv_recomputed,
    preempted,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.PREFIX_CACHE_CONTAMINATED: (
        "{hitPercent} % of the prompt tokens were in the prefix cache, "
        "{beyondPercent} % more than the workload repeats (threshold "
        "{suspectPercent} %, Invalid above {invalidPercent} %)."
    ),
    Code.CACHE_RESET_FAILED: (
        "The prefix cache was not emptied in {attempts} attempts. The server's "
        "answer: {answer}"
    ),
    Code.KV_RECOMPUTED: (
        "The decode servers computed {recomputedPercent} % of {promptTokens} "
        "prompt tokens themselves (threshold {suspectPercent} %, Invalid above "
        "{invalidPercent} %)[; {failedTransfers} transfers failed]."
    ),
    Code.PREEMPTED: (
        "Preemptions: {preemptions} in {requests} requests ({percent} %, Suspect "
        "above {suspectPercent} %)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.PREFIX_CACHE_CONTAMINATED: needs(Input.SERVER_COUNTERS),
    Code.CACHE_RESET_FAILED: needs(Input.PLAN),
    Code.KV_RECOMPUTED: needs(Input.SERVER_COUNTERS),
    Code.PREEMPTED: needs(Input.SERVER_COUNTERS),
}
