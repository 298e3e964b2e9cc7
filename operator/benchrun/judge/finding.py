"""What a rule can find: the codes, what each means for the numbers, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from benchrun.api.status import Severity

Evidence = Mapping[str, float | str | None]

SEVERITIES: tuple[Severity, ...] = ("Note", "Suspect", "Invalid")
"""Least to worst."""


class Code(StrEnum):
    """Stable names: pipelines match on them."""

    ALL_REQUESTS_FAILED = "AllRequestsFailed"
    REQUESTS_FAILED = "RequestsFailed"
    NO_OUTPUT = "NoOutput"
    SERVER_RESTARTED = "ServerRestarted"
    COUNTERS_RESET = "CountersReset"
    PREFIX_CACHE_CONTAMINATED = "PrefixCacheContaminated"
    PREFIX_CACHE_UNKNOWN = "PrefixCacheUnknown"
    RECORD_MISSING = "RecordMissing"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Text of a code, the same in every run."""

    meaning: str
    remedy: str


EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.ALL_REQUESTS_FAILED: Explanation(
        meaning="No request of the stage was answered; it has no latencies.",
        remedy="Read the error in the evidence: a wrong model name, an endpoint without this API, or a prompt longer than "
        "the model takes are the usual causes.",
    ),
    Code.REQUESTS_FAILED: Explanation(
        meaning="More requests failed than validity.maxFailedPercent allows. Failed requests are missing from every latency, "
        "so the figures describe only those that got through.",
        remedy="Lower the load, or remove the cause that the evidence names. Raise validity.maxFailedPercent only if failures "
        "are what you measure.",
    ),
    Code.NO_OUTPUT: Explanation(
        meaning="Requests were answered, but without a single token: latencies and throughput say nothing.",
        remedy="Ask the server by hand: a model that ends at once needs ignoreEOS, a proxy may drop the stream.",
    ),
    Code.SERVER_RESTARTED: Explanation(
        meaning="A server's process started anew during the stage: the stage saw two servers, one of them loading.",
        remedy="See why it ended (kubectl describe pod, the previous container's log), then run again.",
    ),
    Code.COUNTERS_RESET: Explanation(
        meaning="A counter of a server fell during the stage, which happens only when its process was replaced.",
        remedy="See why it ended (kubectl describe pod, the previous container's log), then run again.",
    ),
    Code.PREFIX_CACHE_CONTAMINATED: Explanation(
        meaning="Prompts that share nothing were found in the prefix cache: somebody else sent them, or sent them before. "
        "TTFT is too low and throughput too high, by an amount that can't be computed.",
        remedy="Measure a server that nobody else uses, change measurement.seed if it has seen this traffic, or start it "
        "with --no-enable-prefix-caching.",
    ),
    Code.PREFIX_CACHE_UNKNOWN: Explanation(
        meaning="The server's prefix-cache counters could not be read at both ends of the stage, so a cache that helped "
        "would not be seen.",
        remedy="Let the client reach the server's /metrics, and leave out --disable-log-stats.",
    ),
    Code.RECORD_MISSING: Explanation(
        meaning="A planned stage was not measured to its end; the cell lacks that repeat.",
        remedy="See the run's message for why it ended early.",
    ),
}


@dataclass(frozen=True, slots=True)
class StageFinding:
    """One thing found at one stage."""

    code: Code
    severity: Severity
    stage_id: str
    evidence: Evidence = field(default_factory=dict)
    """The figures that decided, and the line they crossed."""
    weight: float = 0.0
    """How marked it is, to pick the worst stage of a code; compared within the code only."""
