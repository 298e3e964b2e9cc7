"""Codes of findings: stable names that pipelines match on, in the order of results."""

from enum import StrEnum
from typing import Self

from benchrun.api.verdicts import Severity


class Code(StrEnum):
    """The codes of findings, in the order in which findings of one severity are shown."""

    severities: tuple[Severity, ...]
    """Severities that the code's rule gives, from least to worst."""

    def __new__(cls, code: str, *severities: Severity) -> Self:
        """Make a code from its name, with its severities as an attribute."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.severities = severities
        return member

    ALL_REQUESTS_FAILED = "AllRequestsFailed", "Invalid"
    REQUESTS_FAILED = "RequestsFailed", "Invalid"
    NO_OUTPUT = "NoOutput", "Invalid"
    RECORD_MISSING = "RecordMissing", "Invalid"
    WRONG_SERVER = "WrongServer", "Invalid"
    WRONG_MODEL = "WrongModel", "Invalid"
    MIXED_METRICS = "MixedMetrics", "Suspect"
    SERVER_RESTARTED = "ServerRestarted", "Invalid"
    COUNTERS_RESET = "CountersReset", "Invalid"
    FOREIGN_TRAFFIC = "ForeignTraffic", "Invalid"
    GPU_ERRORS = "GPUErrors", "Suspect", "Invalid"
    PREFIX_CACHE_CONTAMINATED = "PrefixCacheContaminated", "Suspect", "Invalid"
    CACHE_RESET_FAILED = "CacheResetFailed", "Suspect"
    KV_RECOMPUTED = "KVRecomputed", "Suspect", "Invalid"
    REASONING_MISSING = "ReasoningMissing", "Suspect"
    REASONING_UNASKED = "ReasoningUnasked", "Suspect"
    SCHEMA_NOT_ENFORCED = "SchemaNotEnforced", "Suspect"
    OUTPUT_TOO_SHORT = "OutputTooShort", "Suspect", "Invalid"
    STREAM_TRUNCATED = "StreamTruncated", "Invalid"
    REQUESTS_ABORTED = "RequestsAborted", "Note", "Suspect"
    REQUESTS_REJECTED = "RequestsRejected", "Suspect"
    TURNS_LOST = "TurnsLost", "Suspect", "Invalid"
    TURNS_LEFT_OUT = "TurnsLeftOut", "Suspect"
    RATE_NOT_ACHIEVED = "RateNotAchieved", "Suspect", "Invalid"
    CONCURRENCY_NOT_REACHED = "ConcurrencyNotReached", "Suspect"
    SESSIONS_NOT_HELD = "SessionsNotHeld", "Suspect"
    CLIENT_SATURATED = "ClientSaturated", "Suspect", "Invalid"
    PATH_SLOW = "PathSlow", "Suspect"
    FRONTEND_SATURATED = "FrontendSaturated", "Suspect"
    CLIENT_SERVER_GAP = "ClientServerGap", "Suspect"
    CLIENT_THROTTLED = "ClientThrottled", "Suspect"
    SHARDS_OUT_OF_STEP = "ShardsOutOfStep", "Suspect"
    PROXY_SATURATED = "ProxySaturated", "Suspect"
    REPLICAS_UNEQUAL = "ReplicasUnequal", "Invalid"
    LOAD_UNEVEN = "LoadUneven", "Suspect"
    GPU_SHARED = "GPUShared", "Suspect"
    COMPILATION_IN_WINDOW = "CompilationInWindow", "Suspect"
    GPU_SLOWED = "GPUSlowed", "Note", "Suspect"
    SERVER_THROTTLED = "ServerThrottled", "Suspect"
    COLD_START = "ColdStart", "Suspect"
    WARMUP_INCOMPLETE = "WarmupIncomplete", "Note"
    NOT_STEADY_STATE = "NotSteadyState", "Suspect"
    FIRST_PART_DIFFERS = "FirstPartDiffers", "Suspect"
    DRIFT = "Drift", "Suspect"
    REPEATS_DISAGREE = "RepeatsDisagree", "Suspect"
    LITTLES_LAW_BROKEN = "LittlesLawBroken", "Suspect"
    TOKEN_COUNTS_DISAGREE = "TokenCountsDisagree", "Suspect"
    PROMPT_TOKENS_DISAGREE = "PromptTokensDisagree", "Note", "Suspect"
    PREEMPTED = "Preempted", "Note", "Suspect"
    USER_RULE = "UserRule", "Note", "Suspect", "Invalid"
    PREFIX_BROKEN = "PrefixBroken", "Note"
    ROUTED_AWAY = "RoutedAway", "Note"
    CACHE_TOO_SMALL = "CacheTooSmall", "Note"
    WINDOW_TOO_SHORT = "WindowTooShort", "Suspect"
    TOO_FEW_SAMPLES = "TooFewSamples", "Note"
    ENGINES_UNEQUAL = "EnginesUnequal", "Note"
    SETTINGS_UNEQUAL = "SettingsUnequal", "Note"
    SPECULATION_ON_RANDOM_TEXT = "SpeculationOnRandomText", "Suspect"
    SYNTHETIC_ACCEPTANCE = "SyntheticAcceptance", "Suspect"
    CHUNKS_ARE_NOT_TOKENS = "ChunksAreNotTokens", "Note"
    ROLE_IDLE = "RoleIdle", "Note"
    USERS_IN_STEP = "UsersInStep", "Note"
    QUEUE_WAIT_HIDDEN = "QueueWaitHidden", "Note"
    ALL_AT_ONCE = "AllAtOnce", "Note"
    RECORD_NOT_STORED = "RecordNotStored", "Note"
    SCRAPE_COVERAGE_LOW = "ScrapeCoverageLow", "Note"
    NOT_CHECKED = "NotChecked", "Note"


FIXED: frozenset[Code] = frozenset(
    {
        Code.ALL_REQUESTS_FAILED,
        Code.RECORD_MISSING,
        Code.ENGINES_UNEQUAL,
        Code.SETTINGS_UNEQUAL,
        Code.USER_RULE,
        Code.NOT_CHECKED,
    }
)
"""Codes whose severity is fixed: `validity.severities` can't change it."""


def rule_of(code: str) -> Code:
    """Return the rule of a finding's code: `UserRule` of `UserRule/slow-tail`."""
    return Code(code.partition("/")[0])
