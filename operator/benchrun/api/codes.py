# Generated from the names of the pages in docs/findings by: python -m dev.generate
"""Codes of findings: stable names that pipelines match on."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """What the judge can find."""

    ALL_AT_ONCE = "AllAtOnce"
    ALL_REQUESTS_FAILED = "AllRequestsFailed"
    CACHE_RESET_FAILED = "CacheResetFailed"
    CHUNKS_ARE_NOT_TOKENS = "ChunksAreNotTokens"
    CLIENT_SATURATED = "ClientSaturated"
    CLIENT_THROTTLED = "ClientThrottled"
    COLD_START = "ColdStart"
    COMPILATION_IN_WINDOW = "CompilationInWindow"
    CONCURRENCY_NOT_REACHED = "ConcurrencyNotReached"
    COUNTERS_RESET = "CountersReset"
    DRIFT = "Drift"
    FOREIGN_TRAFFIC = "ForeignTraffic"
    KV_RECOMPUTED = "KVRecomputed"
    LITTLES_LAW_BROKEN = "LittlesLawBroken"
    LOAD_UNEVEN = "LoadUneven"
    NO_OUTPUT = "NoOutput"
    NOT_CHECKED = "NotChecked"
    NOT_STEADY_STATE = "NotSteadyState"
    OUTPUT_TOO_SHORT = "OutputTooShort"
    PREEMPTED = "Preempted"
    PREFIX_CACHE_CONTAMINATED = "PrefixCacheContaminated"
    PROXY_SATURATED = "ProxySaturated"
    QUEUE_WAIT_HIDDEN = "QueueWaitHidden"
    RATE_NOT_ACHIEVED = "RateNotAchieved"
    RECORD_MISSING = "RecordMissing"
    REPEATS_DISAGREE = "RepeatsDisagree"
    REPLICAS_UNEQUAL = "ReplicasUnequal"
    REQUESTS_FAILED = "RequestsFailed"
    REQUESTS_REJECTED = "RequestsRejected"
    ROLE_IDLE = "RoleIdle"
    SCRAPE_COVERAGE_LOW = "ScrapeCoverageLow"
    SERVER_RESTARTED = "ServerRestarted"
    SHARDS_OUT_OF_STEP = "ShardsOutOfStep"
    STREAM_TRUNCATED = "StreamTruncated"
    TOKEN_COUNTS_DISAGREE = "TokenCountsDisagree"
    TOO_FEW_SAMPLES = "TooFewSamples"
    WARMUP_INCOMPLETE = "WarmupIncomplete"
    WINDOW_TOO_SHORT = "WindowTooShort"
    WRONG_MODEL = "WrongModel"
    WRONG_SERVER = "WrongServer"


FIXED: frozenset[Code] = frozenset({Code.ALL_REQUESTS_FAILED, Code.NOT_CHECKED, Code.RECORD_MISSING})
"""Their severity is fixed: no spec changes it."""
