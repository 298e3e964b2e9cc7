"""The codes of findings: stable names that pipelines match on, specs override and the documentation explains."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """What the judge can find, in the order in which findings of one severity are shown."""

    ALL_REQUESTS_FAILED = "AllRequestsFailed"
    REQUESTS_FAILED = "RequestsFailed"
    NO_OUTPUT = "NoOutput"
    RECORD_MISSING = "RecordMissing"
    WRONG_SERVER = "WrongServer"
    WRONG_MODEL = "WrongModel"
    SERVER_RESTARTED = "ServerRestarted"
    COUNTERS_RESET = "CountersReset"
    FOREIGN_TRAFFIC = "ForeignTraffic"
    PREFIX_CACHE_CONTAMINATED = "PrefixCacheContaminated"
    CACHE_RESET_FAILED = "CacheResetFailed"
    KV_RECOMPUTED = "KVRecomputed"
    OUTPUT_TOO_SHORT = "OutputTooShort"
    STREAM_TRUNCATED = "StreamTruncated"
    REQUESTS_REJECTED = "RequestsRejected"
    RATE_NOT_ACHIEVED = "RateNotAchieved"
    CONCURRENCY_NOT_REACHED = "ConcurrencyNotReached"
    CLIENT_SATURATED = "ClientSaturated"
    CLIENT_THROTTLED = "ClientThrottled"
    SHARDS_OUT_OF_STEP = "ShardsOutOfStep"
    PROXY_SATURATED = "ProxySaturated"
    REPLICAS_UNEQUAL = "ReplicasUnequal"
    LOAD_UNEVEN = "LoadUneven"
    COMPILATION_IN_WINDOW = "CompilationInWindow"
    COLD_START = "ColdStart"
    WARMUP_INCOMPLETE = "WarmupIncomplete"
    NOT_STEADY_STATE = "NotSteadyState"
    DRIFT = "Drift"
    REPEATS_DISAGREE = "RepeatsDisagree"
    LITTLES_LAW_BROKEN = "LittlesLawBroken"
    TOKEN_COUNTS_DISAGREE = "TokenCountsDisagree"
    PREEMPTED = "Preempted"
    WINDOW_TOO_SHORT = "WindowTooShort"
    TOO_FEW_SAMPLES = "TooFewSamples"
    CHUNKS_ARE_NOT_TOKENS = "ChunksAreNotTokens"
    ROLE_IDLE = "RoleIdle"
    QUEUE_WAIT_HIDDEN = "QueueWaitHidden"
    ALL_AT_ONCE = "AllAtOnce"
    SCRAPE_COVERAGE_LOW = "ScrapeCoverageLow"
    NOT_CHECKED = "NotChecked"


FIXED: frozenset[Code] = frozenset({Code.ALL_REQUESTS_FAILED, Code.RECORD_MISSING, Code.NOT_CHECKED})
"""No spec changes these: where there is no number there is nothing to look past."""
