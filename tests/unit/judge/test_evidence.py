"""Every finding carries the figure that decided and the line it crossed, so that a reader can redo the judgement."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from benchrun.judge.rules.rule import Code, Evidence
from unit.judge.found import example_of


class Above(NamedTuple):
    """A figure beyond a line: the name of one in the same evidence, or 0 where once is enough."""

    figure: str
    line: str | float = 0.0


class Below(NamedTuple):
    """A figure short of a line."""

    figure: str
    line: str | float


Side = Above | Below
CERTAIN = (Below("chance", "suspectChance"),)
DECIDED_BY: Mapping[Code, tuple[tuple[Side, ...], ...]] = {
    Code.ALL_REQUESTS_FAILED: ((Above("failed"),),),
    Code.REQUESTS_FAILED: ((Above("failedPercent", "maxFailedPercent"),),),
    Code.NO_OUTPUT: ((Below("outputTokens", "answered"),),),
    Code.RECORD_MISSING: ((Below("measured", "planned"),),),
    Code.WRONG_SERVER: ((Above("servers"),),),
    Code.WRONG_MODEL: ((Above("servers"),),),
    Code.SERVER_RESTARTED: ((Above("startedAfter", "startedBefore"),),),
    Code.COUNTERS_RESET: ((Below("after", "before"),),),
    Code.FOREIGN_TRAFFIC: (
        (Above("moreRequestsPercent", "invalidPercent"), Above("morePromptTokensPercent", "invalidPercent")),
    ),
    Code.PREFIX_CACHE_CONTAMINATED: ((Above("beyondPercent", "suspectPercent"),),),
    Code.CACHE_RESET_FAILED: ((Above("attempts"),),),
    Code.OUTPUT_TOO_SHORT: ((Below("percent", "suspectPercent"), Above("stoppedPercent", "suspectStoppedPercent")),),
    Code.REQUESTS_ABORTED: ((Above("percent", "suspectPercent"), Above("aborted", "failed")),),
    Code.PROMPT_TOKENS_DISAGREE: ((Above("percent", "suspectPercent"), Above("offsetTokens")),),
    Code.SPECULATION_ON_RANDOM_TEXT: ((Above("draftTokens"),),),
    Code.USERS_IN_STEP: ((Below("shareOfRoundPercent", "notePercent"),), (Above("p90TtftMs", "p10TtftMs"),)),
    Code.GPU_SLOWED: (
        (
            Above("slowedPercent", "suspectSlowedPercent"),
            Above("clockFallPercent", "suspectFallPercent"),
            Above("powerCappedPercent", "notePercent"),
        ),
    ),
    Code.GPU_ERRORS: ((Above("after", "before"),),),
    Code.GPU_SHARED: ((Above("pods", 1), Above("usedMib", "suspectMib")),),
    Code.SERVER_THROTTLED: ((Above("throttledPercent", "suspectPercent"),),),
    Code.STREAM_TRUNCATED: ((Above("truncatedPercent", "invalidPercent"),),),
    Code.REQUESTS_REJECTED: ((Above("rejectedPercent"),),),
    Code.RATE_NOT_ACHIEVED: ((Below("sentPercent", "suspectPercent"),),),
    Code.CONCURRENCY_NOT_REACHED: ((Below("reachedPercent", "suspectPercent"),),),
    Code.CLIENT_SATURATED: ((Above("worst", "line"),),),
    Code.PATH_SLOW: ((Above("roundTripMs", "lineMs"),),),
    Code.FRONTEND_SATURATED: ((Above("unexplainedMs", "lineMs"),), (Above("apiServerCores", "suspectCores"),)),
    Code.CLIENT_SERVER_GAP: ((Above("unexplainedMs", "lineMs"),),),
    Code.CLIENT_THROTTLED: ((Above("throttledPeriods"),),),
    Code.SHARDS_OUT_OF_STEP: ((Above("apartMs", "suspectMs"),),),
    Code.REPLICAS_UNEQUAL: (
        (
            Above("versions", 1),
            Above("settings", 1),
            Above("models", 1),
            Above("readAtOneEndOnly"),
            Above("byUnknownServersPercent", "invalidPercent"),
        ),
    ),
    Code.LOAD_UNEVEN: ((Above("offPercent", "suspectPercent"),), CERTAIN),
    Code.COMPILATION_IN_WINDOW: ((Above("compilations"),),),
    Code.COLD_START: (
        (Above("medianTtftOfThemMs", "slowFromMs"),),
        (*CERTAIN, Above("medianTtftOfThemMs", "slowestOfOthersMs")),
    ),
    Code.WARMUP_INCOMPLETE: ((Below("answered", "requests"), Above("running", "line")),),
    Code.NOT_STEADY_STATE: ((Above("changePercent", "suspectPercent"),), CERTAIN),
    Code.DRIFT: (
        (Above("changePercent", "suspectPercent"),),
        (Below("chanceOfOrder", "suspectChanceOfOrder"),),
        (Below("chanceOfSpread", "suspectChanceOfSpread"),),
    ),
    Code.REPEATS_DISAGREE: ((Above("cvPercent", "suspectPercent"),), CERTAIN),
    Code.LITTLES_LAW_BROKEN: (
        (Above("differencePercent", "suspectPercent"),),
        (Above("millisecondsARequest", "suspectMilliseconds"),),
        (Above("difference", "explainedByNoise"),),
    ),
    Code.KV_RECOMPUTED: ((Above("recomputedPercent", "suspectPercent"),),),
    Code.PROXY_SATURATED: (
        (Above("addedMeanMs", "suspectMs"), Above("queuedMeanMs", "suspectMs"), Above("cores", "suspectCores")),
    ),
    Code.ROLE_IDLE: ((Above("idlePercent", "notePercent"),), (Above("queuedPercent", "notePercent"),)),
    Code.TOKEN_COUNTS_DISAGREE: ((Above("differencePercent", "suspectPercent"),),),
    Code.PREEMPTED: ((Above("percent", "suspectPercent"), Above("preemptions")),),
    Code.WINDOW_TOO_SHORT: ((Below("requests", "neededRequests"), Below("seconds", "neededSeconds")),),
    Code.TOO_FEW_SAMPLES: ((Below("samples", "needed"),),),
    Code.CHUNKS_ARE_NOT_TOKENS: ((Below("chunksPerToken", "noteBelow"),),),
    Code.QUEUE_WAIT_HIDDEN: ((Above("p99QueueWaitMs", "lineMs"), Above("meanQueueWaitMs", "lineMs")),),
    Code.ALL_AT_ONCE: ((Above("requests"),),),
    Code.SCRAPE_COVERAGE_LOW: ((Below("coveragePercent", "notePercent"),),),
}
"""What must all be true of a finding's evidence; of alternatives one."""


def number(evidence: Evidence, name: str) -> float:
    """The figure; where it is the name of another, that one. A change counts whatever its direction."""
    value = evidence[name]
    if isinstance(value, str):
        return number(evidence, value)
    assert value is not None
    return abs(value)


def holds(side: Side, evidence: Evidence) -> bool:
    line = side.line if isinstance(side.line, int | float) else number(evidence, side.line)
    figure = number(evidence, side.figure)
    return figure > line if isinstance(side, Above) else figure < line


def test_every_code_says_what_decides() -> None:
    assert set(DECIDED_BY) == set(Code) - {Code.NOT_CHECKED}


@pytest.mark.parametrize("code", DECIDED_BY)
def test_the_evidence_holds_the_figure_and_the_line_it_crossed(code: Code) -> None:
    evidence = example_of(code).evidence
    for alternatives in DECIDED_BY[code]:
        assert any(holds(side, evidence) for side in alternatives), f"{alternatives} in {dict(evidence)}"


def test_what_was_not_checked_names_every_rule_and_why() -> None:
    evidence = example_of(Code.NOT_CHECKED).evidence
    assert set(evidence) <= set(Code)
    assert all(isinstance(why, str) and len(why) > 10 for why in evidence.values())
