"""Rules on an engine that was not warm.

It compiled kernels, was slow at first, or got an incomplete warm-up.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile
from statistics import median
from typing import NamedTuple

from benchrun_client.engines import ENGINES

from benchrun.api import ServerStatus
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    RunContext,
    RunRule,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
)
from benchrun.measure import milliseconds, rounded

WAVE_SHARE = 0.9
"""Share of a closed loop's first wave that must be slow: requests before the load, such as the
client's first, may have taken a cold start of theirs already."""
MIN_REQUESTS = 20  # With fewer there is no usual latency to compare with.


def known_compilations(servers: Sequence[ServerStatus]) -> tuple[float, ...] | None:
    """Return when the server compiled kernels while it served, in Unix seconds.

    Return None if its log was not read, or if there are several servers.
    """
    found = servers[0].compilations if len(servers) == 1 else None
    return None if found is None else tuple(found.at)


def compiled_during(stage: StageFacts) -> Sequence[float] | None:
    """Return when the server compiled kernels, in seconds since the first send.

    Only compilations between the first send and the last answer count. Return None if the log could
    not be read.
    """
    first = stage.record.first_send_unix_us / 1e6
    last = stage.record.last_receive_unix_us / 1e6
    known = known_compilations(stage.servers)
    return (
        None
        if known is None
        else sorted(
            instant - first for instant in known if first <= instant <= last
        )
    )


def compilation_in_window(stage: StageFacts) -> Found:
    """Find kernel compilations in the server's log between the first send and the last answer."""
    inside = compiled_during(stage)
    if inside is None:
        return [NotChecked(Code.COMPILATION_IN_WINDOW, _unread(stage.servers))]
    if not inside:
        return []
    evidence = {
        "compilations": len(inside),
        "firstAfterSeconds": rounded(inside[0]),
    }
    return [
        StageFinding(
            Code.COMPILATION_IN_WINDOW,
            "Suspect",
            stage.id,
            evidence,
            weight=len(inside),
        )
    ]


def _unread(servers: Sequence[ServerStatus]) -> str:
    """Return why it is unknown when the servers compiled kernels."""
    if len(servers) > 1:
        return "logs are read only in runs with a single server"
    if (silent := _silent_engine(servers)) is not None:
        return f"{silent} does not log when it compiles kernels"
    return "the operator could not read the server's log"


def _silent_engine(servers: Sequence[ServerStatus]) -> str | None:
    """Return the name of an engine that does not log compilations; None if all engines do."""
    engines = (ENGINES[server.engine] for server in servers)
    return next(
        (engine.name for engine in engines if engine.compilations is None), None
    )


def cold_start(stage: StageFacts) -> Found:
    """Find a stage that begins with requests whose TTFT is far above the usual.

    The very first request must be slow: it finds the server empty, so a queue can't be the reason.
    There must also be so many slow requests, or the first must be so slow, that chance is ruled
    out.

    In a closed loop nearly the whole first wave must be slow, because its requests wait for each
    other.
    The last tokens of the wave must be late, too: an engine that shares its time between prompts
    and tokens delays the first tokens of a burst, but hardly its last tokens.
    """
    thresholds = stage.thresholds
    if stage.load.all_at_once:
        return []
    if stage.load.sessions_at_once is not None:
        # First turns are slower than later ones, whose prompts are cached.
        why = "the turns of a session are not alike"
        return [NotChecked(Code.COLD_START, why)]
    if len(stage.ttft_us) < MIN_REQUESTS:
        return [
            NotChecked(
                Code.COLD_START,
                f"fewer than {MIN_REQUESTS} answers (raise requests)",
            )
        ]
    users = (stage.load.cap or 1) if stage.load.closed_loop else 1
    begun = stage.record.user_start
    if begun is not None and begun.mode == "Spread":
        users = 1  # There is no first wave of requests.
    beginning = _slow_beginning(stage)
    if stage.load.follows_trace:
        users = _first_burst(stage, beginning.usual_us)
    if beginning.requests < WAVE_SHARE * users or not beginning.is_certain:
        return []
    # A long prompt takes its time, and the requests behind it wait.
    tokens = list(map(stage.requests.input_tokens.__getitem__, stage.answered))
    longer = max(tokens[: beginning.requests]) / max(1.0, median(tokens))
    first = stage.e2el_us[: beginning.requests]
    others = stage.e2el_us[beginning.requests :]
    is_early = (
        users > 1
        and median(first) - median(others)
        < (beginning.median_us - beginning.usual_us) / 2
    )
    if is_early or beginning.median_us <= max(1.0, longer) * beginning.slow_from_us:
        return []
    evidence = {
        "slowRequests": beginning.requests,
        "requests": len(stage.ttft_us),
        "medianTtftOfThemMs": rounded(milliseconds(beginning.median_us)),
        "medianTtftOfOthersMs": rounded(milliseconds(beginning.usual_us)),
        "slowestOfOthersMs": rounded(milliseconds(beginning.slowest_other_us)),
        "slowFromMs": rounded(milliseconds(beginning.slow_from_us)),
        "chance": rounded(beginning.chance),
        "suspectChance": thresholds.chance_of_alarm,
        "suspectFactor": thresholds.cold_start_factor,
    }
    weight = beginning.median_us / max(1.0, beginning.usual_us)
    return [
        StageFinding(Code.COLD_START, "Suspect", stage.id, evidence, weight=weight)
    ]


def _first_burst(stage: StageFacts, usual_us: float) -> int:
    """Return how many requests of a trace are sent before the first could be answered.

    These requests wait for each other, as the first wave of a closed loop does.
    """
    starts = [stage.requests.start_us[i] for i in stage.answered]
    return sum(start <= starts[0] + usual_us for start in starts)


class _Beginning(NamedTuple):
    """The slow requests at the beginning of a stage."""

    requests: int
    median_us: float
    usual_us: float  # Median TTFT of all other requests in microseconds.
    slowest_other_us: float
    slow_from_us: float
    chance: (
        float  # Probability that a random order puts so many slow requests first.
    )
    is_certain: bool
    """Whether chance is ruled out, or only the first request is slow and every other one takes less
    than a third of its time."""


def _slow_beginning(stage: StageFacts) -> _Beginning:
    ttft_us = stage.ttft_us
    thresholds = stage.thresholds
    usual = median(ttft_us)
    slow_from = max(
        thresholds.cold_start_factor * usual,
        usual + 1000 * thresholds.cold_start_floor_ms,
    )
    is_slow = [ttft > slow_from for ttft in ttft_us]
    row = len(list(takewhile(bool, is_slow)))
    slow = sum(is_slow)
    others = ttft_us[row:]
    # That in a random order the first `row` are all among the `slow` ones.
    ways_to_pick = math.lgamma(slow + 1) - math.lgamma(slow - row + 1)
    chance = math.exp(
        ways_to_pick
        - math.lgamma(len(ttft_us) + 1)
        + math.lgamma(len(ttft_us) - row + 1)
    )
    outstanding = row == 1 and ttft_us[0] > thresholds.cold_start_factor * max(
        others
    )
    return _Beginning(
        requests=row,
        median_us=median(ttft_us[:row]) if row else 0.0,
        usual_us=median(others) if others else 0.0,
        slowest_other_us=max(others, default=0.0),
        slow_from_us=slow_from,
        chance=chance,
        is_certain=row > 0
        and (outstanding or chance <= thresholds.chance_of_alarm),
    )


def warmup_incomplete(stage: StageFacts) -> Found:
    """Find a warm-up with fewer answers than requests.

    Only the first record of a workload has the outcome of a warm-up.
    """
    warmup = stage.record.warmup
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
    return [
        StageFinding(
            Code.WARMUP_INCOMPLETE,
            "Note",
            stage.id,
            evidence,
            weight=missing / warmup.requests,
        )
    ]


def batch_not_warmed_up(run: RunContext) -> Found:
    """Find stages that run far more requests at once than the servers have run before.

    That is the most that the warm-ups of all workloads or an earlier stage ran at once.
    """
    stages = [
        (stage, load_point_id)
        for load_point_id, of_load_point in run.load_points.items()
        for stage in of_load_point
    ]
    sizes = [
        min(stage.warmup.concurrency or 0, stage.warmup.requests)
        for stage, _ in stages
        if stage.warmup is not None
    ]
    warmed_up = float(max(sizes, default=0))
    for stage, load_point_id in (
        sorted(stages, key=lambda each: each[0].sequence) if warmed_up else ()
    ):
        running = stage.most_running or 0.0
        thresholds = run.thresholds
        burst = warmed_up + thresholds.warmup_batch_errors * warmed_up**0.5
        line = max(thresholds.warmup_batch_factor * warmed_up, burst)
        if running > line:
            evidence: Evidence = {
                "running": running,
                "line": rounded(line),
                "warmedUp": warmed_up,
                "stage": stage.stage_id,
            }
            yield StageFinding(
                Code.WARMUP_INCOMPLETE,
                "Note",
                load_point_id,
                evidence,
                weight=1 - line / running,
            )
        warmed_up = max(warmed_up, running)


STAGE_RULES: tuple[StageRule, ...] = (
    compilation_in_window,
    cold_start,
    warmup_incomplete,
)
RUN_RULES: tuple[RunRule, ...] = (batch_not_warmed_up,)
SENTENCES: Mapping[Code, Sentence] = {
    Code.COMPILATION_IN_WINDOW: (
        "Kernel compilations during the stage: {compilations}, the first "
        "{firstAfterSeconds} s after its start."
    ),
    Code.COLD_START: (
        "The first {slowRequests} of {requests} requests have a median TTFT of "
        "{medianTtftOfThemMs} ms, the others {medianTtftOfOthersMs} ms (threshold "
        "{slowFromMs} ms)."
    ),
    Code.WARMUP_INCOMPLETE: (
        "[{answered} of {requests} warm-up requests were answered in {seconds} s: "
        "{failed} failed, {cutShort} were cut short.][{running} requests ran at "
        "once in {stage}; the warm-up and earlier stages reached {warmedUp} "
        "(threshold {line}).]"
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.COMPILATION_IN_WINDOW: needs(Input.SERVER_LOG),
    Code.COLD_START: needs(
        Input.OUTCOMES, Input.LOAD, Input.TIMES, Input.INPUT_TOKENS
    ),
    Code.WARMUP_INCOMPLETE: needs(Input.WARMUP, Input.SERVER_SAMPLES),
}
